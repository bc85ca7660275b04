// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Which file a path names: it tells our own file from one that took its place.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    /// Whether the file is a socket.
    package let isSocket: Bool

    /// The file at `path`, links not followed; nil when there is none.
    package init?(of path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(truncatingIfNeeded: status.st_ino)
        isSocket = status.st_mode & S_IFMT == S_IFSOCK
    }
}
