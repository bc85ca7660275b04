// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import NetworkAddresses
public import TunnelIO

/// The means to look up a server's name while a tunnel is up or blocks everything.
public struct TunnelBypass: Sendable {
    /// The network that opens the sockets.
    public var network: any DatagramNetwork
    /// The socket mark that their datagrams need (`ProviderContext.socketMark`).
    public var mark: UInt32
    /// The name servers of the network outside of the tunnel, the preferred one first.
    public var servers: [IPAddress]

    /// Creates a bypass.
    public init(network: any DatagramNetwork, mark: UInt32, servers: [IPAddress]) {
        self.network = network
        self.mark = mark
        self.servers = servers
    }
}

/// Queries name servers for the addresses of a name, over sockets that bypass the tunnel. It blocks, so it needs its
/// own thread.
///
/// It queries the servers one after the other and waits for ``patience`` after each. It also accepts the late answer of
/// an earlier server.
struct BypassLookup {
    let name: String
    let bypass: TunnelBypass
    /// The time until the next server is queried as well, in nanoseconds.
    var patience: Int64 = 1_000_000_000
    /// The number of rounds over all servers.
    var rounds = 3

    /// The results so far.
    private struct Progress {
        var questions: [DNSMessage]
        var asked: Set<IPAddress> = []
        /// The answers, in the order of the questions; `nil` if there is no answer yet.
        var answers: [[IPAddress]?]
        var hasNoSuchName = false
        /// The response code of the last refusal.
        var lastCode: UInt8?

        var isDone: Bool { hasNoSuchName || answers.allSatisfy { $0 != nil } }
        var found: [IPAddress] { answers.flatMap { $0 ?? [] } }
    }

    /// Returns the addresses, IPv4 first.
    func run() throws(TunnelError) -> [IPAddress] {
        var random = SystemRandomNumberGenerator()
        let questions = [false, true].compactMap { DNSMessage(name: name, wantsIPv6: $0, using: &random) }
        guard questions.count == 2 else { throw failure("it is not a host name") }
        guard !bypass.servers.isEmpty else { throw failure("no name server is known outside of the tunnel") }
        var progress = Progress(questions: questions, answers: questions.map { _ in nil })
        do throws(TunnelIOError) {
            try askAll(&progress)
        } catch {
            throw failure("\(error)")
        }
        return try result(progress)
    }

    private func askAll(_ progress: inout Progress) throws(TunnelIOError) {
        let sockets = try bypass.network.bind(port: 0, mark: bypass.mark)
        defer { sockets.close() }
        let batch = try PacketBatch(packetCapacity: 8, byteCapacity: 1 << 16)
        for _ in 0..<rounds {
            for server in bypass.servers {
                // Some servers never answer for one of the families; that is not a reason to query other servers.
                guard !progress.isDone, progress.found.isEmpty else { return }
                ask(server, sockets, batch, &progress)
                wait(for: server, sockets, batch, &progress)
            }
        }
    }

    private func result(_ progress: Progress) throws(TunnelError) -> [IPAddress] {
        if !progress.found.isEmpty { return progress.found }
        if progress.hasNoSuchName { throw failure("there is no such name") }
        if progress.isDone { throw failure("the answer is empty") }
        if let code = progress.lastCode { throw failure("the name servers refused, code \(code)") }
        let servers = bypass.servers.map(\.description).joined(separator: ", ")
        throw failure("no answer from \(servers)")
    }

    private func failure(_ reason: String) -> TunnelError {
        TunnelError(
            .nameResolutionFailed, "'\(name)' has no address, asked for outside of the tunnel: \(reason)",
            fix: "check the server's name and the network's name servers")
    }

    private func ask(
        _ server: IPAddress, _ sockets: DatagramSockets, _ batch: PacketBatch, _ progress: inout Progress
    ) {
        guard let socket = server.isIPv6 ? sockets.v6 : sockets.v4 else { return }
        progress.asked.insert(server)
        batch.removeAll()
        for (question, answer) in zip(progress.questions, progress.answers) where answer == nil {
            batch.append(copying: question.query, endpoint: Endpoint(address: server, port: DNSMessage.port))
        }
        // A query that cannot be sent gets no answer, and the next round repeats it.
        _ = try? socket.send(batch, in: 0..<batch.count)
    }

    /// Reads answers until all have arrived, the server refuses or ``patience`` ends. A late refusal of another server
    /// does not end the wait.
    private func wait(
        for server: IPAddress, _ sockets: DatagramSockets, _ batch: PacketBatch, _ progress: inout Progress
    ) {
        progress.lastCode = nil
        let end = LaneClock.now() + patience
        while !progress.isDone {
            let left = end - LaneClock.now()
            guard left > 0 else { return }
            var entries = sockets.all.map { pollfd(fd: $0.readiness, events: Int16(POLLIN), revents: 0) }
            let count = unsafe poll(&entries, nfds_t(entries.count), Int32(clamping: left / 1_000_000 + 1))
            guard count > 0 else { continue }
            for socket in sockets.all {
                batch.removeAll()
                // An ICMP refusal is reported as an error of the socket, and says nothing about other servers.
                guard (try? socket.receive(into: batch)) ?? 0 > 0 else { continue }
                for index in 0..<batch.count {
                    receive(batch.copy(of: index), batch[endpoint: index], asking: server, &progress)
                }
            }
            if progress.lastCode != nil, progress.found.isEmpty { return }
        }
    }

    private func receive(
        _ message: [UInt8], _ sender: Endpoint, asking server: IPAddress, _ progress: inout Progress
    ) {
        guard sender.port == DNSMessage.port, progress.asked.contains(sender.address) else { return }
        for (index, question) in progress.questions.enumerated() where progress.answers[index] == nil {
            switch question.answer(in: message) {
            case .addresses(let addresses)?: progress.answers[index] = addresses
            case .noSuchName?: progress.hasNoSuchName = true
            case .refused(let code)?: if sender.address == server { progress.lastCode = code }
            case nil: break
            }
        }
    }
}
