// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The privileges that the daemon drops after its descriptors are open: none on Darwin, where utun always needs root.
    enum Privileges {
        static func reduce() -> [String] { [] }
        /// The child is started without them.
        static func closeInherited(from first: Int32) {}
    }
#endif
