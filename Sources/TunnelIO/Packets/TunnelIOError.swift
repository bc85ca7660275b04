// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// An error of a device, a socket or an event loop, with the input that caused it.
public struct TunnelIOError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure.
    public enum Code: Hashable, Sendable {
        /// The system refused this much memory.
        case outOfMemory(byteCount: Int)
        /// A batch of this size cannot be created, or does not suit the operation; `expected` describes one that does.
        case invalidBatch(packets: Int, bytes: Int, expected: String)
        /// The interface name is empty, too long or has a character that the system does not allow.
        case invalidInterfaceName(String)
        /// A device cannot be created with these options. Each text describes one problem.
        case invalidOptions([String])
        /// The TUN device could not be opened, configured, read or written; `operation` says which.
        case device(name: String, operation: String)
        /// The TUN device was removed: the interface was deleted, or its descriptor was closed.
        case deviceRemoved(name: String)
        /// The given descriptor is not of the expected kind.
        case invalidDescriptor(Int32, expected: String)
        /// No socket could be bound to this port.
        case bind(port: UInt16, operation: String)
        /// A socket operation failed; `operation` says which.
        case socket(operation: String)
        /// The socket or device was closed by this process.
        case closed
        /// A call that waited for packets was interrupted.
        case interrupted
        /// The task that waited for packets was cancelled.
        case cancelled
        /// The utun device of this process could not be identified with certainty; `reason` explains why.
        case deviceNotFound(reason: String)
        /// The event loop could not do this.
        case eventLoop(operation: String)
        /// This platform has no such feature.
        case unsupported(String)
    }

    /// The kind of failure.
    public let code: Code
    /// The system's error number, or zero if there is none.
    public let errno: Int32

    /// An error with the system's error number.
    public init(_ code: Code, errno: Int32 = 0) {
        self.code = code
        self.errno = errno
    }

    /// A call on a socket that the system refused.
    package init(_ error: SystemError) {
        self.init(.socket(operation: error.operation), errno: error.errno)
    }

    /// The error, the input that caused it, and the system's reason.
    public var description: String {
        let what =
            switch code {
            case .outOfMemory(let byteCount): "the system refused \(byteCount) bytes of memory"
            case .invalidBatch(let packets, let bytes, let expected):
                "a batch of \(packets) packets in \(bytes) bytes is not \(expected)"
            case .invalidInterfaceName(let name):
                "'\(name)' is not an interface name: 1 to 15 characters, without '/', ':', '%' or spaces"
            case .invalidOptions(let problems): "the tunnel device cannot be made: \(problems.joined(separator: "; "))"
            case .device(let name, let operation): "tunnel device '\(name)': \(operation)"
            case .deviceRemoved(let name): "tunnel device '\(name)' was removed"
            case .invalidDescriptor(let descriptor, let expected): "descriptor \(descriptor) is not \(expected)"
            case .bind(let port, let operation): "UDP port \(port): \(operation)"
            case .socket(let operation): "UDP socket: \(operation)"
            case .closed: "already closed"
            case .interrupted: "interrupted while waiting for packets"
            case .cancelled: "cancelled while waiting for packets"
            case .deviceNotFound(let reason): "no tunnel device found: \(reason)"
            case .eventLoop(let operation): "event loop: \(operation)"
            case .unsupported(let feature): "\(feature) is not available on this platform"
            }
        guard errno != 0 else { return what }
        return "\(what): \(SystemError.text(errno))"
    }
}

extension SystemCall {
    /// The call's result.
    /// - Throws: `code` with the system's error number when it failed.
    @discardableResult
    static func check<Result: FixedWidthInteger & SignedInteger>(
        _ code: @autoclosure () -> TunnelIOError.Code, _ call: () -> Result
    ) throws(TunnelIOError) -> Result {
        try check(call) { TunnelIOError(code(), errno: $0) }
    }
}
