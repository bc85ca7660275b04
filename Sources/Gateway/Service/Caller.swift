// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CTunnelSystem
package import NetworkAddresses

/// Who asks the service for something. Only ``GatewayService`` makes those that a secret stands for.
package struct Caller: Hashable, Sendable {
    package enum Who: Hashable, Sendable {
        /// An administrator's token.
        case admin(TokenID)
        case readOnly(TokenID)
        /// A token that makes devices of its user.
        case enroller(TokenID, UserID)
        /// A device, by its credential.
        case device(DeviceID, UserID)
        /// Somebody on the gateway's socket, whom the system has named.
        case local(uid_t)
        /// The gateway itself: what time brings, and the runtime.
        case gateway
        /// A request without a credential, or whose credential its route checks.
        case nobody
    }

    package let who: Who
    /// Where the request came from; nil on the machine itself.
    package let source: IPAddress?

    init(_ who: Who, from source: IPAddress? = nil) {
        self.who = who
        self.source = source
    }

    /// Somebody on the gateway's socket, who was found to be allowed there.
    package static func local(_ user: uid_t) -> Caller { Caller(.local(user)) }

    /// The gateway itself.
    package static let gateway = Caller(.gateway)

    /// A request without a credential. It has no permission.
    package static let nobody = Caller(.nobody)

    /// What the audit log calls it.
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

/// What may be asked for.
enum Permission {
    /// To see everything but secrets.
    case read
    /// To change anything.
    case manage
    /// To make devices of a user.
    case enrol
    /// What is the device's own, and its user's list of devices.
    case ownDevice
    /// What only the process itself does.
    case run
}

extension Caller {
    /// The one place that says who may do what.
    func check(_ permission: Permission) throws(GatewayError) {
        let isAllowed =
            switch (who, permission) {
            case (.admin, .read), (.admin, .manage), (.local, .read), (.local, .manage): true
            case (.readOnly, .read): true
            case (.enroller, .enrol): true
            case (.device, .ownDevice): true
            case (.gateway, .run), (.gateway, .read), (.gateway, .manage): true
            default: false
            }
        guard isAllowed else { throw .forbidden }
    }
}
