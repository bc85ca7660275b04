// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What an alert says.
public struct AlertText: Equatable, Sendable {
    /// What did not work.
    public var title: String
    /// Why, and what to do about it.
    public var message: String

    /// An alert about an error.
    public init(_ title: String, _ error: any Error) {
        self.title = title
        message = "\(error)"
    }
}
