// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The name of this machine.
    enum MachineName {
        static let platform = "linux"

        static var host: String? { HostNameText.read() }
    }
#endif
