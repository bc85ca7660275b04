// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    /// Servers run on Linux.
    enum FolderOwner {
        static func become(_: String, keeping _: UInt64) throws(ServerError) {}

        static func make(_: String, owner _: String) throws(ServerError) {
            throw ServerError("--owner is for Linux", status: ExitStatus.usage)
        }
    }
#endif
