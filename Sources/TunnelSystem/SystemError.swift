// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// A call that the system refused.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The failed operation, and its object.
    package let operation: String
    /// The system's error number.
    package let errno: Int32

    package init(_ operation: String, errno: Int32) {
        self.operation = operation
        self.errno = errno
    }

    /// The failed operation, and the system's reason with its number.
    package var description: String { "\(operation): \(SystemError.text(errno))" }

    /// Whether this error number means that the user lacks a permission.
    package static func isDenied(_ number: Int32) -> Bool { number == EACCES || number == EPERM }

    /// The system's text for this error number.
    package static func words(_ number: Int32) -> String {
        guard let words = unsafe strerror(number) else { return "error \(number)" }
        return unsafe String(cString: words)
    }

    /// The system's text for this error number, and the number.
    package static func text(_ number: Int32) -> String { "\(words(number)) (errno \(number))" }
}
