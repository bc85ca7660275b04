// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel
import Synchronization
package import TunnelIO
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A name server on a real network or one in memory. It answers from a table (RFC 1035), or not at all.
package final class NameServer: Sendable {
    /// A received question.
    package struct Question: Hashable, Sendable {
        package var name: String
        package var isIPv6: Bool
        /// The last byte of the queried address; zero if the network does not report it.
        package var server: UInt8
    }

    private struct State {
        var table: [String: [IPAddress]]
        var isSilent = false
        var code: UInt8 = 0
        var questions: [Question] = []
    }

    private let state: Mutex<State>
    private let isEnded = Atomic<Bool>(false)
    private let sockets: DatagramSockets
    private let ended = OneShot<Void>()

    /// Serves on port 53 of `network`.
    package init(on network: any DatagramNetwork, _ table: [String: [IPAddress]]) throws {
        state = Mutex(State(table: table))
        sockets = try network.bind(port: 53, mark: 0)
        let batch = Sent(try PacketBatch(packetCapacity: 16, byteCapacity: 1 << 18))
        let answers = Sent(try PacketBatch(packetCapacity: 16, byteCapacity: 1 << 18))
        let (sockets, ended) = (sockets, ended)
        _ = try LoopThread(name: "names") { [weak self] in
            while let self, !self.isEnded.load(ordering: .acquiring) {
                var entries = sockets.all.map { pollfd(fd: $0.readiness, events: Int16(POLLIN), revents: 0) }
                guard unsafe poll(&entries, nfds_t(entries.count), 20) > 0 else { continue }
                for socket in sockets.all { self.serve(socket, batch.batch, answers.batch) }
            }
            sockets.close()
            ended.finish(())
        }
    }

    /// A batch that only the server's thread uses.
    private struct Sent: @unchecked Sendable {
        let batch: PacketBatch
        init(_ batch: PacketBatch) { self.batch = batch }
    }

    /// Ends the server; returns once its port is free.
    package func close() async {
        isEnded.store(true, ordering: .releasing)
        await ended.value
    }

    deinit { isEnded.store(true, ordering: .releasing) }

    /// Sets the addresses of a name; with `nil` the name does not exist.
    package func set(_ name: String, _ addresses: [IPAddress]?) { state.withLock { $0.table[name] = addresses } }

    /// Whether it receives but does not answer.
    package var isSilent: Bool {
        get { state.withLock { $0.isSilent } }
        set { state.withLock { $0.isSilent = newValue } }
    }

    /// The response code of every answer, if it is not zero: 2 is a failure, 5 a refusal.
    package var code: UInt8 {
        get { state.withLock { $0.code } }
        set { state.withLock { $0.code = newValue } }
    }

    /// The received questions, in order.
    package var questions: [Question] { state.withLock { $0.questions } }

    private func serve(_ socket: any DatagramSocket, _ batch: PacketBatch, _ answers: PacketBatch) {
        batch.removeAll()
        answers.removeAll()
        guard (try? socket.receive(into: batch)) ?? 0 > 0 else { return }
        for index in 0..<batch.count {
            let sender = batch[endpoint: index]
            guard let answer = answer(to: batch.copy(of: index), at: UInt8(truncatingIfNeeded: sender.source.low))
            else {
                continue
            }
            answers.append(copying: answer, endpoint: sender)
        }
        if answers.count > 0 { _ = try? socket.send(answers, in: 0..<answers.count) }
    }

    private func answer(to query: [UInt8], at server: UInt8) -> [UInt8]? {
        var labels: [String] = []
        var offset = 12
        while offset < query.count, query[offset] != 0 {
            let end = offset + 1 + Int(query[offset])
            guard end <= query.count else { return nil }
            labels.append(String(decoding: query[(offset + 1)..<end], as: UTF8.self))
            offset = end
        }
        guard offset + 5 <= query.count else { return nil }
        let (name, isIPv6) = (labels.joined(separator: "."), query[offset + 2] == 28)
        let (known, code) = state.withLock { state -> ([IPAddress]?, UInt8?) in
            state.questions.append(Question(name: name, isIPv6: isIPv6, server: server))
            return (state.table[name], state.isSilent ? nil : state.code)
        }
        guard let code else { return nil }
        let found = code == 0 ? (known ?? []).filter { $0.isIPv6 == isIPv6 } : []
        var message = Array(query[...(offset + 4)])
        message.replaceSubrange(2..<4, with: [0x81, 0x80 | (code == 0 && known == nil ? 3 : code)])
        message.replaceSubrange(6..<12, with: [0, UInt8(found.count), 0, 0, 0, 0])
        for address in found {
            message += [0xc0, 12, 0, isIPv6 ? 28 : 1, 0, 1, 0, 0, 0, 60, 0, UInt8(address.bytes.count)] + address.bytes
        }
        return message
    }
}
