// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The privileges that the daemon drops after it has opened its descriptors: none on Darwin, where utun always
    /// needs root.
    enum Privileges {
        static func reduce() -> [String] { [] }
        /// Does nothing, because the child is started without inherited descriptors.
        static func closeInherited(from first: Int32) {}
    }
#endif
