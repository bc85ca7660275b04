// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The error of a socket in the file system that cannot be served.
public enum UnixSocketError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path is empty, contains a zero byte, or is longer than a socket address permits.
    case invalidPath(String)
    /// Another process serves the socket.
    case alreadyRunning(path: String)
    /// The file is not a socket. It is never removed automatically.
    case notASocket(path: String)
    /// Other users can write to the folder and could put their own socket there.
    case unsafeFolder(path: String)
    /// A system call failed.
    case system(path: String, operation: String, errno: Int32)

    /// The description of the error, with the path.
    public var description: String {
        switch self {
        case .invalidPath(let path): "'\(path)' cannot be the path of a socket"
        case .alreadyRunning(let path): "another process serves \(path)"
        case .notASocket(let path): "\(path) is a file and no socket; remove it"
        case .unsafeFolder(let path): "the folder \(path) can be changed by other users"
        case .system(let path, let operation, let errno):
            "\(path): \(operation): \(SystemError.text(errno))"
        }
    }
}

extension UnixSocketError {
    init(_ failure: UnixListener.Failure, path: String) {
        self =
            switch failure {
            case .invalidPath: .invalidPath(path)
            case .alreadyRunning: .alreadyRunning(path: path)
            case .notASocket: .notASocket(path: path)
            case .unsafeFolder(let folder): .unsafeFolder(path: folder)
            case .system(let path, let operation, let errno): .system(path: path, operation: operation, errno: errno)
            }
    }
}
