// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// Servers run on Linux.
    package enum FolderOwner {
        package static func become(_: String, keeping _: UInt64) throws(CommandFailure) {}

        package static func make(_: String, owner _: String) throws(CommandFailure) {
            throw CommandFailure("--owner is for Linux", status: ExitStatus.usage)
        }
    }
#endif
