// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CTunnelSystem
package import NetworkAddresses

/// The requester of an operation. Only ``GatewayService`` makes callers that are identified by a secret.
package struct Caller: Hashable, Sendable {
    package enum Who: Hashable, Sendable {
        /// A token of scope `admin`.
        case admin(TokenID)
        case readOnly(TokenID)
        /// A token that makes devices for its user.
        case enroller(TokenID, UserID)
        /// A device, identified by its credential.
        case device(DeviceID, UserID)
        /// A user of this machine on the gateway's socket, identified by the system.
        case local(uid_t)
        /// The gateway itself: timers and the runtime.
        case gateway
        /// A request without a credential, or a request whose route checks the credential.
        case nobody
    }

    package let who: Who
    /// The address of the request; `nil` for a local request.
    package let source: IPAddress?

    init(_ who: Who, from source: IPAddress? = nil) {
        self.who = who
        self.source = source
    }

    /// A user of this machine who is permitted to use the gateway's socket.
    package static func local(_ user: uid_t) -> Caller { Caller(.local(user)) }

    /// The gateway itself.
    package static let gateway = Caller(.gateway)

    /// A request without a credential. It has no permission.
    package static let nobody = Caller(.nobody)

    /// The name in the audit log.
    package var name: String {
        switch who {
        case .admin(let id): "admin:\(id)"
        case .readOnly(let id): "readOnly:\(id)"
        case .enroller(_, let user): "user:\(user)"
        case .device(let id, _): "device:\(id)"
        case .local(let user): "local:\(user)"
        case .gateway: "gateway"
        case .nobody: "nobody"
        }
    }
}

/// A kind of operation that needs permission.
enum Permission {
    /// Read everything except secrets.
    case read
    /// Change anything.
    case manage
    /// Get all keys of the gateway, which no token permits.
    case manageLocally
    /// Make devices for a user.
    case enrol
    /// Read and change the device itself, and list and remove devices of its user.
    case ownDevice
    /// Operations of the gateway process only.
    case run
}

extension Caller {
    /// Checks a permission. All decisions about a caller's permissions are made here.
    func check(_ permission: Permission) throws(GatewayError) {
        let isAllowed =
            switch (who, permission) {
            case (.admin, .read), (.admin, .manage), (.local, .read), (.local, .manage), (.local, .manageLocally): true
            case (.readOnly, .read): true
            case (.enroller, .enrol): true
            case (.device, .ownDevice): true
            case (.gateway, .run), (.gateway, .read), (.gateway, .manage): true
            default: false
            }
        guard isAllowed else { throw .forbidden }
    }
}
