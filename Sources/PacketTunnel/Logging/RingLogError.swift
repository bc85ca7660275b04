// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The error of an unusable log file.
public enum RingLogError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path names something other than a regular file.
    case notAFile(path: String)
    /// The file is not a log: it has another header.
    case foreign(path: String)
    /// The file is a log whose header or size is damaged.
    case corrupt(path: String, reason: String)
    /// The file is a log of a later version.
    case unsupportedVersion(path: String, version: UInt32)
    /// A system call failed.
    case system(path: String, operation: String, errno: Int32)

    /// The description of the error, with the path.
    public var description: String {
        switch self {
        case .notAFile(let path): "\(path) is not a file"
        case .foreign(let path): "\(path) is not a log"
        case .corrupt(let path, let reason): "the log \(path) is damaged: \(reason)"
        case .unsupportedVersion(let path, let version): "the log \(path) is of version \(version), which is unknown"
        case .system(let path, let operation, let errno):
            "\(path): \(operation): \(SystemError.text(errno))"
        }
    }

    /// Whether replacing the file by an empty log would help.
    public var isMendedByRecreating: Bool {
        switch self {
        case .foreign, .corrupt, .unsupportedVersion: true
        case .notAFile, .system: false
        }
    }
}
