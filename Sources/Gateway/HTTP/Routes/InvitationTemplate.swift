// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import Provisioning

/// The fields that all invitations of the gateway share.
package struct InvitationTemplate: Sendable {
    package var host: String
    package var port: UInt16
    package var pins: [ServerKeyPin]
    package var label: String

    package init(host: String, port: UInt16, pins: [ServerKeyPin], label: String) {
        self.host = host
        self.port = port
        self.pins = pins
        self.label = label
    }

    /// The text of an invitation with this secret.
    func text(_ secret: BearerSecret, until end: Date) throws(GatewayError) -> String {
        do throws(ContractError) {
            return try Invitation(
                host: host, port: port, token: secret, expires: end, pins: pins, gateway: label.isEmpty ? nil : label
            ).exportedText
        } catch {
            throw .unavailable("cannot write the invitation: \(error)")
        }
    }
}
