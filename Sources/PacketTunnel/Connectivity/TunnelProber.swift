// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import Synchronization

/// Pings an address through the tunnel, and resolves that address if it is a name. All packets enter and leave the tunnel
/// directly, without a socket.
package final class TunnelProber: Sendable {
    private struct State {
        var probe: EchoProbe?
        var questions: [DNSQuestion] = []
        var hasReply = false
        var replies = 0
        var pings = 0
    }

    private let state = Mutex(State())
    private let target: String?
    private let sources: [IPAddress]
    private let servers: [IPAddress]

    /// - Parameters:
    ///   - target: an address or a name to ping, or `nil`.
    ///   - sources: the tunnel's own addresses.
    ///   - servers: the name servers to query through the tunnel.
    package init(target: String?, sources: [IPAddress], servers: [IPAddress]) {
        self.target = target
        self.sources = sources
        self.servers = servers
        if let address = target.flatMap({ try? IPAddress($0) }) { aim(at: address) }
    }

    /// Whether the prober was made with equal arguments.
    package func isFor(target: String?, sources: [IPAddress], servers: [IPAddress]) -> Bool {
        (self.target, self.sources, self.servers) == (target, sources, servers)
    }

    /// The number of pings sent and of valid replies received.
    package var counts: (pings: Int, replies: Int) { state.withLock { ($0.pings, $0.replies) } }

    private func aim(at address: IPAddress) {
        guard let source = sources.first(where: { $0.isIPv6 == address.isIPv6 }) else { return }
        var random = SystemRandomNumberGenerator()
        let probe = EchoProbe(from: source, to: address, using: &random)
        state.withLock { $0.probe = probe }
    }

    /// Returns the packets to send into the tunnel now: a ping, or the DNS question for the target's name.
    package func packets() -> [(packet: [UInt8], destination: IPAddress)] {
        if let ping = ping() { return [ping] }
        guard let target, (try? IPAddress(target)) == nil else { return [] }
        var random = SystemRandomNumberGenerator()
        var questions: [DNSQuestion] = []
        for server in servers {
            guard let source = sources.first(where: { $0.isIPv6 == server.isIPv6 }) else { continue }
            for wantsIPv6 in [false, true] where sources.contains(where: { $0.isIPv6 == wantsIPv6 }) {
                if let question = DNSQuestion(
                    name: target, wantsIPv6: wantsIPv6, from: source, to: server, using: &random)
                {
                    questions.append(question)
                }
            }
        }
        let asked = questions
        state.withLock { $0.questions = Array(($0.questions + asked).suffix(16)) }
        return questions.map { ($0.packet, $0.server) }
    }

    private func ping() -> ([UInt8], IPAddress)? {
        state.withLock { state in
            guard var probe = state.probe else { return nil }
            let packet = probe.request()
            state.probe = probe
            state.pings += 1
            return (packet, probe.target)
        }
    }

    /// Consumes a packet from the tunnel if it answers one of the probes. Returns whether it did; if so, the packet must not
    /// be delivered.
    package func consume(_ packet: [UInt8]) -> Bool {
        let (isOurs, found) = state.withLock { state -> (Bool, IPAddress?) in
            switch state.probe?.classify(packet) {
            case .reply:
                state.hasReply = true
                state.replies += 1
                return (true, nil)
            case .stale: return (true, nil)
            case .other, nil: break
            }
            for question in state.questions {
                guard let addresses = question.answer(in: packet) else { continue }
                return (true, state.probe == nil ? addresses.first : nil)
            }
            return (false, nil)
        }
        if let found { aim(at: found) }
        return isOurs
    }

    /// Returns whether a valid reply has arrived since the last call.
    package func takeReply() -> Bool {
        state.withLock { state in
            defer { state.hasReply = false }
            return state.hasReply
        }
    }
}
