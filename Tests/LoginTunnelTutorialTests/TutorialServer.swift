// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import TunnelIO

@testable import LoginTunnelTutorial

/// The server for the tutorial's client: one user, sessions by address, and an in-memory network behind it.
final class TutorialServer: Sendable {
    struct State: Sendable {
        var sessions: [Endpoint: Session] = [:]
        var logins = 0
        var goodbyes = 0
    }

    static let address = IPAddress.v4(198, 51, 100, 1)
    let key = Curve25519.KeyAgreement.PrivateKey()
    let state = Mutex(State())
    private let changes: Changes
    private let batch: Mutex<PacketBatch>
    private let sockets: DatagramSockets
    private let loop: EventLoop

    init(on internet: MemoryInternet, changes: Changes) throws {
        self.changes = changes
        batch = try Mutex(PacketBatch())
        sockets = try internet.attach([Self.address]).bind(port: 4500, mark: 0)
        loop = try EventLoop()
        for socket in sockets.all {
            _ = try loop.register(socket.readiness) { [weak self] _ in self?.receive(from: socket) }
        }
        try loop.startThread(name: "server")
    }

    deinit {
        loop.stop()
        sockets.close()
    }

    private func receive(from socket: any DatagramSocket) {
        batch.withLock { batch in
            batch.removeAll()
            guard let count = try? socket.receive(into: batch) else { return }
            let received = (0..<count).map { (batch.copy(of: $0), batch[endpoint: $0]) }
            batch.removeAll()
            for (datagram, source) in received {
                if let answer = answer(datagram, from: source) { batch.append(copying: answer, endpoint: source) }
            }
            _ = try? socket.send(batch, in: 0..<batch.count)
        }
        changes.notify()
    }

    func answer(_ datagram: [UInt8], from source: Endpoint) -> [UInt8]? {
        state.withLock { state in
            if datagram.first == PacketCode.clientHello.rawValue { return greet(datagram, &state.sessions[source]) }
            guard var session = state.sessions[source], let (code, body) = session.open(datagram) else { return nil }
            defer { if code != .disconnect { state.sessions[source] = session } }
            switch code {
            case .clientAuthRequest:
                state.logins += 1
                guard let answer = try? MessageEncoder.encode(Self.judge(body)) else { return nil }
                return session.seal(.serverAuthResponse, answer)
            case .data: return (body.isEmpty ? [] : VirtualNetwork().receive(body)).flatMap { session.seal(.data, $0) }
            case .disconnect:
                state.goodbyes += 1
                state.sessions[source] = nil
                return nil
            default: return nil
            }
        }
    }

    private static func judge(_ body: [UInt8]) -> Body.ServerAuthResponse {
        let isGood = (try? MessageDecoder.clientAuthRequest(body)) == .init(login: "kean", password: "123456")
        return isGood
            ? .accepted(Body.Assignment(addresses: [InterfaceAddress(host: .v4(10, 7, 0, 2))], routes: [.allIPv4]))
            : .refused(Body.Refusal(.credentials))
    }

    private func greet(_ hello: [UInt8], _ session: inout Session?) -> [UInt8]? {
        let ephemeral = Curve25519.KeyAgreement.PrivateKey()
        guard let header = try? MessageDecoder.header(of: hello), let nonce = Session.nonce(0),
            let theirs = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: hello[8..<40]),
            let lasting = try? key.sharedSecretFromKeyAgreement(with: theirs),
            let fresh = try? ephemeral.sharedSecretFromKeyAgreement(with: theirs)
        else { return nil }
        let opening =
            Header(code: .serverHello, index: header.index).bytes
            + Array(ephemeral.publicKey.rawRepresentation)
        let keys = Handshake.keys(lasting, fresh, transcript: hello[..<40] + opening)
        let name: [UInt8] = [7, 0, 0, 0]
        guard let box = try? ChaChaPoly.seal(name, using: keys.toClient, nonce: nonce, authenticating: opening) else {
            return nil
        }
        session = Session(index: header.index, sealing: keys.toClient, opening: keys.toServer)
        return opening + Array(box.ciphertext) + Array(box.tag)
    }
}
