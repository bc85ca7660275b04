// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Provisioning
import TunnelSystem

/// The handlers of the administrators' API: all of `/v1` on their listener and on the socket.
package struct AdminRoutes: Sendable {
    let service: GatewayService
    let invitations: InvitationTemplate
    let backup: Backup?
    let loginTunnel: LoginTunnelPlace?

    /// Makes an encrypted backup with a passphrase, if the caller may make one.
    package typealias Backup = @Sendable (_ passphrase: [UInt8], Caller) async throws(GatewayError) -> ReplyStream

    package init(
        _ service: GatewayService, invitations: InvitationTemplate, backup: Backup? = nil,
        loginTunnel: LoginTunnelPlace? = nil
    ) {
        self.loginTunnel = loginTunnel
        self.service = service
        self.invitations = invitations
        self.backup = backup
    }

    package func register(in list: inout RouteList) {
        registerUsers(in: &list)
        registerPasswords(in: &list)
        registerLoginTunnel(in: &list)
        registerPeers(in: &list)
        registerTokens(in: &list)
        registerInvitations(in: &list)
        registerRules(.ofUsers, in: &list)
        registerRules(.ofDevices, in: &list)
        registerCooldowns(in: &list)
        registerGateway(in: &list)
    }
}
