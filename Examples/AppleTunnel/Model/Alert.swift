// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The text of an alert.
public struct AlertText: Equatable, Sendable {
    /// The failed operation.
    public var title: String
    /// The reason and the remedy.
    public var message: String

    /// An alert about an error.
    public init(_ title: String, _ error: any Error) {
        self.title = title
        message = "\(error)"
    }
}
