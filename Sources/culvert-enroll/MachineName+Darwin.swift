// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The name and the platform of this machine.
    enum MachineName {
        static let platform = "macos"

        static var host: String? { HostNameText.read() }
    }
#endif
