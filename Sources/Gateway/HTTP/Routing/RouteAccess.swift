// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The permission that a route needs. The listener reads the matching kind of credential.
package enum RouteAccess: String, Sendable, CaseIterable {
    case open
    /// An invitation, or a token of scope `enrol`. The route checks them itself.
    case invitation
    /// A token of scope `addKey` in the query. The route checks it itself.
    case addKey
    /// A device's credential.
    case device
    /// A token of scope `readOnly` or `admin`, or the socket.
    case read
    /// A token of scope `admin`, or the socket.
    case manage
    /// The socket only.
    case socket
    /// Like ``read``, or, if ``GatewaySettings/metricsNeedToken`` is `false`, a process of this host without a credential.
    case localRead

    /// The permission that the caller needs, which is checked before more of a request is read; `nil` if the listener
    /// checks no credential.
    var permission: Permission? {
        switch self {
        case .open, .invitation, .addKey: nil
        case .device: .ownDevice
        case .read, .localRead: .read
        case .manage: .manage
        case .socket: .manageLocally
        }
    }
}

/// A kind of caller in the authorisation table.
package enum CallerRole: String, Sendable, CaseIterable {
    case anonymous = "no credential"
    case localProcess = "no credential, from this host"
    case invitation = "invitation"
    case enrolToken = "`enrol` token"
    case addKeyToken = "`addKey` token"
    case device = "device credential"
    case readOnlyToken = "`readOnly` token"
    case adminToken = "`admin` token"
}

extension RouteAccess {
    /// The permitted callers.
    package var roles: Set<CallerRole> {
        switch self {
        case .open: Set(CallerRole.allCases)
        case .invitation: [.invitation, .enrolToken]
        case .addKey: [.addKeyToken]
        case .device: [.device]
        case .read: [.readOnlyToken, .adminToken]
        case .manage: [.adminToken]
        case .socket: []
        case .localRead: [.localProcess, .readOnlyToken, .adminToken]
        }
    }
}
