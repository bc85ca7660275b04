// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation
import NetworkAddresses
import PacketTunnel
import Synchronization
import TunnelIO

/// The server of the tunnel: users in memory, a session for each address, and a virtual network that answers pings.
final class Server: Sendable {
    struct State: Sendable {
        var sessions: [Endpoint: Session] = [:]
        /// The addresses whose session has an accepted login. The server drops packets from other addresses.
        var accepted: Set<Endpoint> = []
        var logins = 0
        var goodbyes = 0
    }

    /// The server's key. Clients know its public part beforehand.
    let key = Curve25519.KeyAgreement.PrivateKey()
    let state = Mutex(State())
    private let users: [String: String]
    private let behind = VirtualNetwork()
    private let onChange: @Sendable () -> Void
    private let batch: Mutex<PacketBatch>
    private let sockets: DatagramSockets
    private let loop: EventLoop

    /// Binds the port and starts the server.
    /// - Parameters:
    ///   - users: The password of each user. Real servers store a hash that is slow to compute.
    ///   - onChange: Called on the server's thread after each datagram.
    init(
        over network: any DatagramNetwork, port: UInt16, users: [String: String],
        onChange: @escaping @Sendable () -> Void = {}
    ) throws(TunnelIOError) {
        (self.users, self.onChange) = (users, onChange)
        batch = try Mutex(PacketBatch())
        sockets = try network.bind(DatagramBinding(port: port))
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

    /// The bound port. The system chooses one instead of 0.
    var port: UInt16 { sockets.port }

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
        onChange()
    }

    /// Returns the response to a datagram. Bytes that are not authentic have none.
    func answer(_ datagram: [UInt8], from source: Endpoint) -> [UInt8]? {
        state.withLock { state in
            if datagram.first == PacketCode.clientHello.rawValue {
                let answer = greet(datagram, &state.sessions[source])
                if answer != nil { state.accepted.remove(source) }
                return answer
            }
            guard var session = state.sessions[source], let (code, body) = session.open(datagram) else { return nil }
            defer { if code != .disconnect { state.sessions[source] = session } }
            switch code {
            case .clientAuthRequest:
                state.logins += 1
                let verdict = verdict(body)
                guard let answer = try? MessageEncoder.encode(verdict) else { return nil }
                if case .accepted = verdict { state.accepted.insert(source) }
                return session.seal(.serverAuthResponse, answer)
            case .data:
                guard state.accepted.contains(source) else { return nil }
                // An empty body is a keepalive, which needs a response too.
                return (body.isEmpty ? [] : behind.receive(body)).flatMap { session.seal(.data, $0) }
            case .disconnect:
                state.goodbyes += 1
                state.sessions[source] = nil
                state.accepted.remove(source)
                return nil
            default: return nil
            }
        }
    }

    /// Verifies a login, and assigns an address to its user.
    private func verdict(_ body: [UInt8]) -> Body.ServerAuthResponse {
        guard let login = try? MessageDecoder.clientAuthRequest(body), users[login.login] == login.password,
            let number = users.keys.sorted().firstIndex(of: login.login), number < 250
        else { return .refused(Body.Refusal(.credentials)) }
        return .accepted(
            Body.Assignment(
                addresses: [InterfaceAddress(host: .v4(10, 7, 0, UInt8(number + 2)))], routes: [.allIPv4]))
    }

    /// Performs the server's side of the key agreement.
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
        // The server finds a session by its address, so every session has the same index.
        let name: [UInt8] = [7, 0, 0, 0]
        guard let box = try? ChaChaPoly.seal(name, using: keys.toClient, nonce: nonce, authenticating: opening) else {
            return nil
        }
        session = Session(index: header.index, sealing: keys.toClient, opening: keys.toServer)
        return opening + Array(box.ciphertext) + Array(box.tag)
    }
}
