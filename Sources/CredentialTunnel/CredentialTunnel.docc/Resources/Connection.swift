// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation
import NetworkAddresses
import PacketTunnel
import TunnelIO

/// The configuration of the tunnel. It does not contain the password, which is a secret of the profile.
struct LoginConfiguration: Codable, Sendable {
    var server: String
    var serverKey: Data
    var login: String
}

/// The connection after an accepted login.
struct Connection: Sendable {
    let link: Link
    var session: Session
    let assignment: Body.Assignment

    var settings: TunnelSettings {
        TunnelSettings(
            remoteAddress: link.server.address.description, addresses: assignment.addresses,
            includedRoutes: assignment.routes,
            dns: assignment.dns.isEmpty ? nil : DNSSettings(servers: assignment.dns), mtu: assignment.mtu)
    }

    /// Performs the handshake and logs in.
    static func open(
        _ configuration: LoginConfiguration, over network: any DatagramNetwork, context: ProviderContext
    ) async throws(TunnelError) -> Connection {
        let password = String(decoding: try await context.secret("password").bytes, as: UTF8.self)
        let request = Body.ClientAuthRequest(login: configuration.login, password: password)
        guard let server = try? Endpoint(configuration.server), let body = try? MessageEncoder.encode(request),
            let key = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: configuration.serverKey)
        else { throw TunnelError(.configurationInvalid, "the server, its key or the login cannot be used") }
        guard let link = try? Link(to: server, over: network, mark: context.socketMark) else {
            throw TunnelError(.networkUnavailable, "cannot open a socket to the server")
        }

        let handshake = Handshake(with: key)
        var isSilent = true
        let greeted = await link.ask(clock: context.clock) {
            handshake.hello
        } accept: { reply -> Session? in
            isSilent = false
            return handshake.session(from: reply)
        }
        guard var session = greeted else {
            throw isSilent
                ? TunnelError(.serverUnreachable, "nothing answered", fix: "check the server's address")
                : TunnelError(.keyMismatch, "what answers is not the server", fix: "check the server's key")
        }

        let answer = await link.ask(clock: context.clock) {
            session.seal(.clientAuthRequest, body)
        } accept: { reply -> Body.ServerAuthResponse? in
            guard let (code, body) = session.open(reply), code == .serverAuthResponse else { return nil }
            return try? MessageDecoder.serverAuthResponse(body)
        }
        switch answer {
        case .accepted(let assignment): return Connection(link: link, session: session, assignment: assignment)
        case .refused(let refusal):
            throw TunnelError(
                refusal.reason == .credentials ? .authenticationFailed : .serverUnreachable,
                "the server refused the login (\(refusal.reason.rawValue))")
        case nil: throw TunnelError(.serverUnreachable, "the login had no answer")
        }
    }

    mutating func send(_ code: PacketCode, _ body: [UInt8]) {
        if let datagram = session.seal(code, body) { link.send(datagram) }
    }

    /// Notifies the server, so that it need not wait for a time-out.
    mutating func close() {
        send(.disconnect, [EndReason.closed.rawValue])
        link.close()
    }
}
