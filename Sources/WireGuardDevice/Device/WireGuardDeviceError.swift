// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import NetworkAddresses
public import TunnelIO
import TunnelSystem
public import WireGuardCore

/// The error of a device that could not be started, configured or reached.
public struct WireGuardDeviceError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure.
    public enum Code: Hashable, Sendable {
        /// The device was closed.
        case closed
        /// A TUN device, socket or event loop failed with this error.
        case io(TunnelIOError)
        /// The management socket at this path could not be created; `operation` is the step that failed, or the reason.
        /// `culvert-wg` also throws it for its name file and its background process.
        case managementSocket(path: String, operation: String)
        /// Another process answers on the management socket of this interface.
        case alreadyRunning(path: String)
        /// The configuration needs more memory than the device's budget permits.
        case beyondBudget(EngineLimitError)
        /// The host of this endpoint has no address.
        case unresolved(EndpointAddress, reason: String)
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

    /// An error of the I/O layer.
    public init(_ error: TunnelIOError) {
        code = .io(error)
        errno = error.errno
    }

    /// A configuration beyond the device's bounds.
    public init(_ error: EngineLimitError) {
        code = .beyondBudget(error)
        errno = ENOMEM
    }

    /// The failure and its remedy.
    public var description: String {
        switch code {
        case .closed: "the device was closed"
        case .io(let error): error.description
        case .managementSocket(let path, let operation):
            "management socket \(path): \(operation): \(SystemError.text(errno))"
        case .beyondBudget(let error): error.description
        case .unresolved(let endpoint, let reason): "the host of \(endpoint) has no address: \(reason)"
        case .alreadyRunning(let path):
            "management socket \(path): another process answers there; stop it first or choose another interface name"
        }
    }
}
