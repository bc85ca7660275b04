// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    /// Without a gateway on this system, no command has a list to show.
    enum Columns {
        static let users: [(title: String, member: String)] = []
        static let devices: [(title: String, member: String)] = []
        static let rules: [(title: String, member: String)] = []
    }
#endif
