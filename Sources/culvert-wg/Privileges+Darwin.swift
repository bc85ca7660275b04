// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// What the daemon gives up once its descriptors are open: nothing on Darwin, where utun needs root throughout.
    enum Privileges {
        static func reduce() -> [String] { [] }
        /// The child is started without them.
        static func closeInherited(from first: Int32) {}
    }
#endif
