// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CTunnelSystem

/// The status of a file (`stat`).
package struct FileStatus: Sendable {
    package enum Kind: Sendable {
        case file
        case folder
        case socket
        case other
    }

    package let kind: Kind
    /// The permissions: the lower twelve bits of the mode.
    package let mode: mode_t
    package let owner: uid_t
    package let size: Int
    /// The time of the last change of the content, in seconds since 1970.
    package let modified: Int
    package let identity: FileIdentity

    /// The status of the file at `path`; `nil` if there is none or it cannot be read, with the reason in `errno`.
    package init?(of path: String, followsLinks: Bool = true) {
        var status = stat()
        guard unsafe (followsLinks ? stat(path, &status) : lstat(path, &status)) == 0 else { return nil }
        self.init(status)
    }

    /// The status of an open descriptor; `nil` if it cannot be read, with the reason in `errno`.
    package init?(of descriptor: Int32) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    private init(_ status: stat) {
        kind =
            switch status.st_mode & CTUNNEL_S_IFMT {
            case CTUNNEL_S_IFREG: .file
            case CTUNNEL_S_IFDIR: .folder
            case CTUNNEL_S_IFSOCK: .socket
            default: .other
            }
        mode = status.st_mode & 0o7777
        owner = status.st_uid
        size = Int(status.st_size)
        modified = Int(unsafe withUnsafePointer(to: status) { unsafe ctunnel_modified($0) })
        identity = FileIdentity(
            device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(truncatingIfNeeded: status.st_ino))
    }
}

/// The identity of a file: it distinguishes a file from one that replaced it.
package struct FileIdentity: Hashable, Sendable {
    /// The file system that contains the file.
    package let device: UInt64
    fileprivate let inode: UInt64
}

extension FileIdentity {
    /// The file at `path`, links not followed; `nil` if there is none.
    package init?(of path: String) {
        guard let status = FileStatus(of: path, followsLinks: false) else { return nil }
        self = status.identity
    }
}
