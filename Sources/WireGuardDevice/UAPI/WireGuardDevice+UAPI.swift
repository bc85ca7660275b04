// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem
package import WireGuardCore

/// A listening management socket, before a device serves it.
public struct ManagementSocket: Sendable {
    let listener: UnixListener

    /// Returns the path at which `wg` expects the socket of an interface.
    public static func path(forInterface name: String) -> String { "/var/run/wireguard/\(name).sock" }

    /// Binds and listens at `path`, with access only for the owner. Replaces a file on which no process listens.
    /// - Throws: `.alreadyRunning` if another process answers there, `.managementSocket` if a step fails.
    public init(path: String) throws(WireGuardDeviceError) {
        do throws(UnixListener.Failure) { listener = try UnixListener(path: path) } catch {
            throw WireGuardDeviceError(error, path: path)
        }
    }

    /// Takes over a listening socket that was bound to `path`.
    public init(descriptor: Int32, path: String) throws(WireGuardDeviceError) {
        do throws(UnixListener.Failure) {
            listener = try UnixListener(descriptor: descriptor, path: path)
        } catch {
            throw WireGuardDeviceError(error, path: path)
        }
    }

    /// The listening descriptor.
    public var descriptor: Int32 { listener.descriptor.number }

    /// Removes the socket of a device that ended without removing it; does nothing if a process answers at it.
    package static func removeAbandoned(forInterface name: String) {
        UnixListener.removeAbandoned(path(forInterface: name))
    }
}

/// The permissions of the management socket of a device that has another owner too.
package struct ManagementRules: Sendable {
    /// Whether removing the socket's file closes the device. `wg-quick` and users end a userspace device in this way.
    package var endsWithSocket: Bool
    /// Returns the permitted part of an update.
    package var permitted: @Sendable (UAPIDeviceUpdate) -> UAPIDeviceUpdate
    /// Called with each update after it was applied.
    package var applied: @Sendable (UAPIDeviceUpdate) -> Void

    package init(
        endsWithSocket: Bool = true,
        permitted: @escaping @Sendable (UAPIDeviceUpdate) -> UAPIDeviceUpdate = { $0 },
        applied: @escaping @Sendable (UAPIDeviceUpdate) -> Void = { _ in }
    ) {
        self.endsWithSocket = endsWithSocket
        self.permitted = permitted
        self.applied = applied
    }
}

extension WireGuardDeviceError {
    fileprivate init(_ failure: UnixListener.Failure, path: String) {
        func socket(_ operation: String, _ errno: Int32) -> WireGuardDeviceError {
            WireGuardDeviceError(.managementSocket(path: path, operation: operation), errno: errno)
        }
        self =
            switch failure {
            case .invalidPath: socket("the path is too long", ENAMETOOLONG)
            case .alreadyRunning: WireGuardDeviceError(.alreadyRunning(path: path), errno: EADDRINUSE)
            case .notASocket: socket("there is a file that is not a socket; remove it", EEXIST)
            case .unsafeFolder: socket("other users can change its folder", EPERM)
            case .system(_, let operation, let errno): socket(operation, errno)
            }
    }
}

extension WireGuardDevice {
    /// Serves `wg` and similar programs on this socket until the device closes. Removing the socket's file closes the
    /// device.
    public func serveUAPI(on socket: ManagementSocket) throws(WireGuardDeviceError) {
        try serveUAPI(on: socket, by: ManagementRules())
    }

    /// Serves the UAPI for a device that has another owner as well.
    package func serveUAPI(on socket: ManagementSocket, by rules: ManagementRules) throws(WireGuardDeviceError) {
        let server: UAPIServer
        do throws(TunnelIOError) {
            server = try UAPIServer(
                listener: socket.listener, loop: control, maximumConnections: management.connections
            ) { [weak self] in
                self?.makeUAPISession(rules) ?? UAPISession(state: { UAPIDeviceState() }, apply: { _ in .noDevice })
            } onRemoval: { [weak self] in
                guard rules.endsWithSocket else {
                    self?.log(.error, "the management socket was removed: wg no longer finds this device")
                    return
                }
                self?.closeLater(.managementSocketRemoved)
            }
        } catch {
            throw WireGuardDeviceError(error)
        }
        let isClosed = operations.withLock { state in
            guard state.closeReason == nil else { return true }
            state.servers.append(server)
            return false
        }
        if isClosed {
            server.close()
            throw WireGuardDeviceError(.closed)
        }
    }

    /// The parser and executor of one connection.
    func makeUAPISession(_ rules: ManagementRules = ManagementRules()) -> UAPISession {
        UAPISession(
            state: { [weak self] in self?.uapiState ?? UAPIDeviceState() },
            apply: { [weak self] update in
                guard let self else { return .noDevice }
                let permitted = rules.permitted(update)
                let failure = applyForUAPI(permitted)
                if failure == nil { rules.applied(permitted) }
                return failure
            },
            resolveZone: { name in
                let index = unsafe if_nametoindex(name)
                return index == 0 ? nil : index
            },
            limits: management)
    }

    private func applyForUAPI(_ update: UAPIDeviceUpdate) -> UAPIErrno? {
        do throws(WireGuardDeviceError) {
            try apply(update)
            return nil
        } catch {
            log(.error, "UAPI: \(error)")
            switch error.errno {
            case EADDRINUSE: return .addressInUse
            case EADDRNOTAVAIL: return .addressNotAvailable
            case EPERM, EACCES: return .notPermitted
            case ENOMEM, ENOBUFS: return .outOfMemory
            default: return error.code == .closed ? .noDevice : .inputOutput
            }
        }
    }
}
