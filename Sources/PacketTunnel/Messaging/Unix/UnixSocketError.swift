// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Why a socket in the file system cannot be served.
public enum UnixSocketError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path has more bytes than a socket's address holds, none, or a zero byte.
    case invalidPath(String)
    /// Another process serves it.
    case alreadyRunning(path: String)
    /// There is a file that is no socket; nobody removes it for you.
    case notASocket(path: String)
    /// Others may change what is in the folder, so that anyone could put a socket of theirs there.
    case unsafeFolder(path: String)
    /// The system refused a step.
    case system(path: String, operation: String, errno: Int32)

    /// What is wrong, and with which path.
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
