// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import TunnelSystem

@testable import PacketTunnel

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Messages over a Unix socket")
struct UnixMessageTests {
    /// A server with an echo and a counter, in a separate folder.
    final class Fixture {
        let directory: ScratchDirectory
        let router = MessageRouter()
        let server: UnixMessageServer
        let sent = Eavesdropper<Int>()
        let ended = Event()
        /// Notified of that, and of clients that connect and disconnect.
        let changes: Changes
        var path: String { directory.file("socket") }

        init(
            clock: any Clock<Duration> = ContinuousClock(), changes: Changes = Changes(),
            change: (inout UnixMessageServer.Configuration) -> Void = { _ in }
        ) throws {
            self.changes = changes
            directory = try ScratchDirectory()
            var configuration = UnixMessageServer.Configuration(path: directory.file("socket"))
            change(&configuration)
            server = try UnixMessageServer(configuration: configuration, router: router, clock: clock)
            changes.follow(server.clientCounts())
            router.on(Echo.self) { Echo.Reply(text: $0.text) }
            router.on(CountTo.self) { [sent, ended, changes] subscription, sink in
                defer {
                    ended.signal()
                    changes.notify()
                }
                var number = 0
                while number < subscription.last {
                    number += 1
                    try await sink.send(number)
                    sent.observe(number)
                }
            }
        }

        deinit { server.close() }

        var client: MessageClient { MessageClient(channel: UnixMessageChannel(path: path)) }

        /// A plain connection.
        func connect() throws -> OwnedDescriptor {
            try UnixSocket.connect(to: path)
        }

        /// Waits until the server has this number of clients.
        func waitForClients(_ count: Int) async -> Bool {
            let server = server
            return await changes.wait(within: .seconds(120)) { server.clientCount == count }
        }
    }

    enum Glue {
        /// Sends bytes on a non-blocking socket; returns the number of sent bytes.
        static func send(_ descriptor: Int32, _ bytes: [UInt8]) -> Int {
            unsafe bytes.withUnsafeBytes { unsafe UnixSocket.send(descriptor, $0) }
        }
    }

    @Test("Messages and replies of all sizes pass, many at a time")
    func echo() async throws {
        let fixture = try Fixture()
        let client = fixture.client
        for byteCount in [0, 1, 1_000, 16_384, 200_000, 900_000] {
            let text = String(repeating: "x", count: byteCount)
            #expect(try await client.send(Echo(text: text)).text == text)
        }
        let wrong = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<30 {
                group.addTask {
                    do { return try await client.send(Echo(text: "\(number)")).text != "\(number)" } catch {
                        return true
                    }
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(wrong == 0)
        #expect(await fixture.waitForClients(0))
    }

    @Test("The socket is for its owner only, and so is the folder that was made for it")
    func modes() throws {
        let directory = try ScratchDirectory()
        let path = directory.file("run/socket")
        let server = try UnixMessageServer(configuration: .init(path: path), router: MessageRouter())
        #expect(try directory.mode("run") == 0o700)
        #expect(try directory.mode("run/socket") == 0o600)
        server.close()
        #expect(throws: ScratchDirectory.Failure.self) { try directory.mode("run/socket") }
        unsafe _ = unlink(path + ".lock")
    }

    @Test("Without a server, or after its end, the tunnel is closed")
    func closed() async throws {
        let fixture = try Fixture()
        let client = fixture.client
        #expect(try await client.send(Echo(text: "a")).text == "a")
        fixture.server.close()
        #expect(await caught { try await client.send(Echo(text: "a")) } == .closed)
        let nowhere = MessageClient(channel: UnixMessageChannel(path: "/nonexistent/socket"))
        #expect(await caught { try await nowhere.send(Echo(text: "a")) } == .closed)
    }

    @Test("A server that ends closes the requests in progress")
    func serverGoesAway() async throws {
        let fixture = try Fixture()
        let entered = Event()
        fixture.router.on(Echo.self) { _ in
            entered.signal()
            try await ContinuousClock().sleep(for: .seconds(3600))
            return Echo.Reply(text: "")
        }
        let client = fixture.client
        let waiting = Task { await caught { try await client.send(Echo(text: "")) } }
        #expect(await entered.wait(timeout: .seconds(120)))
        fixture.server.close()
        #expect(await waiting.value == .closed)
    }

    @Test("A client that gives up has its handler cancelled")
    func clientGivesUp() async throws {
        let fixture = try Fixture()
        let (entered, cancelled) = (Event(), Event())
        fixture.router.on(Echo.self) { _ in
            entered.signal()
            do { try await ContinuousClock().sleep(for: .seconds(3600)) } catch { cancelled.signal() }
            return Echo.Reply(text: "")
        }
        let clock = VirtualClock()
        let client = MessageClient(
            channel: UnixMessageChannel(path: fixture.path), timeout: .seconds(1), clock: clock)
        let send = Task { await caught { try await client.send(Echo(text: "")) } }
        #expect(await entered.wait(timeout: .seconds(120)))
        await clock.waitForSleepers()
        clock.advance(by: .seconds(1))
        #expect(await send.value == .timeout)
        #expect(await cancelled.wait(timeout: .seconds(120)))
        #expect(await fixture.waitForClients(0))
    }

    @Test("Two servers do not share a path, and the socket of a dead one is replaced")
    func oneServer() async throws {
        let fixture = try Fixture()
        #expect(throws: UnixSocketError.alreadyRunning(path: fixture.path)) {
            try UnixMessageServer(configuration: .init(path: fixture.path), router: MessageRouter())
        }
        #expect(try await fixture.client.send(Echo(text: "still")).text == "still")

        let directory = try ScratchDirectory()
        let path = directory.file("stale")
        do {
            let dead = OwnedDescriptor(UnixSocket.make())
            #expect(UnixSocket.bindPrivately(dead.number, to: path) == 0)
        }
        let server = try UnixMessageServer(configuration: .init(path: path), router: fixture.router)
        let client = MessageClient(channel: UnixMessageChannel(path: path))
        #expect(try await client.send(Echo(text: "new")).text == "new")
        server.close()
    }

    @Test("Files that are not sockets, folders that other users can change and impossible paths are refused")
    func refusedPaths() throws {
        let directory = try ScratchDirectory()
        func outcome(_ path: String) -> UnixSocketError? {
            do throws(UnixSocketError) {
                try UnixMessageServer(configuration: .init(path: path), router: MessageRouter()).close()
                return nil
            } catch {
                return error
            }
        }
        try directory.write([1, 2, 3], to: "file")
        #expect(outcome(directory.file("file")) == .notASocket(path: directory.file("file")))
        #expect(try directory.read("file") == [1, 2, 3])
        let long = directory.file(String(repeating: "x", count: 200))
        #expect(outcome(long) == .invalidPath(long))
        #expect(outcome("") == .invalidPath(""))
        #expect(unsafe chmod(directory.path, 0o777) == 0)
        #expect(outcome(directory.file("socket")) == .unsafeFolder(path: directory.path))
        #expect(unsafe chmod(directory.path, 0o700) == 0)
    }

    @Test("Requests and replies beyond the limit fail with the connection's own figures")
    func limits() async throws {
        let fixture = try Fixture { $0.maximumByteCount = 10_000 }
        let error = await caught { try await fixture.client.send(Echo(text: String(repeating: "x", count: 20_000))) }
        guard case .tooLarge(.request, let byteCount, 10_000) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(byteCount > 20_000)
        fixture.router.on(Echo.self) { _ in Echo.Reply(text: String(repeating: "x", count: 5_000)) }
        let small = MessageClient(channel: UnixMessageChannel(path: fixture.path, maximumByteCount: 1_000))
        let reply = await caught { try await small.send(Echo(text: "")) }
        guard case .tooLarge(.reply, _, 1_000) = reply else {
            Issue.record("\(String(describing: reply))")
            return
        }
    }

    @Test("Beyond the number of clients the server is busy, until one of them disconnects")
    func boundedClients() async throws {
        let fixture = try Fixture { $0.maximumClients = 2 }
        do {
            let first = try fixture.connect()
            let second = try fixture.connect()
            #expect(await fixture.waitForClients(2))
            #expect(await caught { try await fixture.client.send(Echo(text: "")) } == .busy)
            withExtendedLifetime(first.number + second.number) {}
        }
        #expect(await fixture.waitForClients(0))
        #expect(try await fixture.client.send(Echo(text: "a")).text == "a")
    }

    @Test("A client that sends nothing, or half of a request, is cut off after a while")
    func silentClients() async throws {
        let clock = VirtualClock()
        let fixture = try Fixture(clock: clock) { $0.stallTimeout = .seconds(5) }
        let silent = try fixture.connect()
        let half = try fixture.connect()
        #expect(Glue.send(half.number, [0, 0, 1, 0, 1, 2, 3]) == 7)
        await clock.waitForSleepers(2)
        #expect(fixture.server.clientCount == 2)
        clock.advance(by: .seconds(5))
        #expect(await fixture.waitForClients(0))
        withExtendedLifetime(silent.number) {}
    }

    @Test("A request that arrives byte by byte is answered")
    func byteByByte() async throws {
        let fixture = try Fixture()
        let socket = try fixture.connect()
        let request = try MessageContainer(
            kind: .request, name: Echo.name, version: 1, correlation: 9, payload: Array(#"{"text":"slow"}"#.utf8)
        ).encoded()
        var bytes: [UInt8] = []
        bytes.appendBigEndian(UInt32(request.count))
        for byte in bytes + request { #expect(Glue.send(socket.number, [byte]) == 1) }
        let loop = try EventLoop()
        try loop.startThread(name: "test")
        defer { loop.stop() }
        let connection = try FrameConnection(socket, loop: loop, maximumByteCount: 1_000)
        let reply = try MessageContainer(decoding: try #require(try await connection.read()))
        #expect(reply.kind == .reply)
        #expect(reply.correlation == 9)
        #expect(try await connection.read() == nil)
    }

    @Test("Noise gets an error or the end, and the server stays")
    func noise() async throws {
        let fixture = try Fixture { $0.maximumByteCount = 1_000 }
        var generator = SeededGenerator(seed: 12)
        for _ in 0..<100 {
            // The queue of those who want to be accepted is bounded.
            #expect(await fixture.waitForClients(0))
            let socket = try fixture.connect()
            _ = Glue.send(socket.number, generator.bytes(generator.int(in: 0...600)))
        }
        // The last of them may not even have been accepted.
        var error: MessageError? = .busy
        while error == .busy { error = await caught { try await fixture.client.send(Echo(text: "a")) } }
        #expect(error == nil)
    }

    @Test("Elements of a subscription arrive in order, and a cancelled subscription ends at the server")
    func subscription() async throws {
        let fixture = try Fixture()
        var received: [Int] = []
        for try await number in try await fixture.client.subscribe(to: CountTo(last: 2_000)) { received.append(number) }
        #expect(received == Array(1...2_000))
        #expect(fixture.ended.hasHappened)

        let stopped = Event()
        fixture.router.on(CountTo.self) { _, sink in
            try await sink.send(1)
            do { try await ContinuousClock().sleep(for: .seconds(3600)) } catch { stopped.signal() }
        }
        for try await _ in try await fixture.client.subscribe(to: CountTo(last: 1)) { break }
        #expect(await stopped.wait(timeout: .seconds(120)))
        #expect(await fixture.waitForClients(0))
    }

    @Test("The server waits for a subscriber that does not read, and cuts it off after a while")
    func backPressure() async throws {
        let clock = VirtualClock()
        let changes = clock.changes
        let fixture = try Fixture(clock: clock, changes: changes) { $0.stallTimeout = .seconds(5) }
        let stream = try await fixture.client.subscribe(to: CountTo(last: .max))
        var iterator = stream.makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        await clock.waitForSleepers()
        // The socket is full; it holds far fewer than this.
        let count = fixture.sent.count
        #expect(count < 50_000)
        for expected in 2...100 { #expect(try await iterator.next() == expected) }
        let ended = fixture.ended
        // Reading made room, so it may have begun to wait again.
        while !ended.hasHappened {
            try #require(await changes.wait { clock.sleeperCount > 0 || ended.hasHappened })
            clock.advance(by: .seconds(5))
        }
        #expect(await caught { while try await iterator.next() != nil {} } == .closed)
    }

    @Test("Errors of handlers and missing handlers pass")
    func errors() async throws {
        let fixture = try Fixture()
        fixture.router.on(Echo.self, nil)
        #expect(await caught { try await fixture.client.send(Echo(text: "")) } == .noHandler(name: Echo.name))
        fixture.router.on(Echo.self) { _ in throw HandlerFailure(code: "c", message: "m") }
        #expect(
            await caught { try await fixture.client.send(Echo(text: "")) }
                == .handlerFailed(HandlerFailure(code: "c", message: "m")))
    }

    @Test("The system tells who the peer is")
    func peerUser() async throws {
        let fixture = try Fixture()
        let socket = try fixture.connect()
        #expect(UnixSocket.peerUser(socket.number) == geteuid())
    }
}

private func connectSocket(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(descriptor, address, length)
}
