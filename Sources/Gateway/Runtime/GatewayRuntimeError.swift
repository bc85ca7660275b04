// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelIO
package import TunnelServer
package import WireGuardDevice

/// The reason that a gateway's tunnel cannot run.
package enum GatewayRuntimeError: Error, Hashable, Sendable, CustomStringConvertible {
    case network(TunnelServerError)
    case tunnel(WireGuardDeviceError)
    /// The login tunnel cannot run, or has failed.
    case login(TunnelIOError)
    case service(GatewayError)
    /// The interface was removed, or something failed for good.
    case ended(WireGuardDevice.CloseReason)
    /// It was started before, or has been stopped.
    case notStarted

    package var description: String {
        switch self {
        case .network(let error): error.description
        case .tunnel(let error): error.description
        case .login(let error): "the login tunnel: \(error)"
        case .service(let error): error.description
        case .ended(let reason): "the tunnel has ended: \(reason)"
        case .notStarted: "the tunnel was already started, or was stopped"
        }
    }
}
