// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CCulvert
import CulvertC
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("The C interface")
struct CulvertCTests {
    /// Two tunnels on socket pairs that know each other; the second knows where the first is.
    private func pair(_ change: (inout culvert_options) -> Void = { _ in }) throws -> (Side, Side) {
        let (first, second) = try (Side(), Side())
        try first.start(with: second.key.publicKey, addresses: "10.0.0.2/32", change)
        try second.start(
            with: first.key.publicKey, at: try first.status.port, addresses: "10.0.0.1/32", change)
        return (first, second)
    }

    @Test(
        "Packets go both ways between two tunnels on socket pairs, in order and unchanged",
        arguments: [1, 2] as [UInt32])
    func traffic(threads: UInt32) throws {
        let (first, second) = try pair { $0.threads = threads }
        for number in 0..<200 as Range<UInt16> {
            let packet = TestPacket.make(from: 2, to: 1, number: number, byteCount: 60 + Int(number) * 6)
            #expect(second.write(packet))
            #expect(first.read() == packet)
            let answer = TestPacket.make(from: 1, to: 2, number: number)
            #expect(first.write(answer))
            #expect(second.read() == answer)
        }
        let status = try second.status
        #expect(status.end == CULVERT_RUNNING)
        #expect(status.peer_count == 1 && status.session_count == 1)
        #expect(status.sent_bytes > 200 * 100 && status.received_bytes > 200 * 100)
        #expect(status.latest_handshake > 1_700_000_000)
        var peers = [culvert_peer](repeating: culvert_peer(), count: 2)
        var count = 0
        #expect(culvert_get_peers(try second.handle, &peers, 2, &count) == CULVERT_OK)
        #expect(count == 1)
        #expect(peers[0].has_session)
        #expect(CText.of(&peers[0].endpoint).hasSuffix(":\(try first.status.port)"))
        #expect(withUnsafeBytes(of: peers[0].public_key) { Array($0) } == first.key.publicKey.bytes)
    }

    @Test("Several threads that stop a tunnel together end it once, and close its end of the socket pair")
    func stopping() throws {
        let side = try Side()
        try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32")
        let handle = SendableHandle(try side.handle)
        let threads = (0..<4).map { _ in
            TestThread { #expect(culvert_stop(handle.value) == CULVERT_OK) }
        }
        for thread in threads { thread.join() }
        var end = culvert_end(CULVERT_RUNNING)
        #expect(culvert_wait(handle.value, -1, &end) == CULVERT_OK)
        #expect(end == CULVERT_END_REQUESTED)
        #expect(try side.status.end == CULVERT_END_REQUESTED)
        #expect(side.read() == nil)
        #expect(culvert_configure(handle.value, "listen_port=0\n", nil) == CULVERT_ENDED)
        #expect(side.free() == CULVERT_OK)
    }

    @Test("A tunnel whose program closes the other end ends with that reason")
    func otherEndCloses() throws {
        let side = try Side()
        try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32")
        shutdown(side.inside, Int32(2))
        var end = culvert_end(CULVERT_RUNNING)
        #expect(culvert_wait(try side.handle, 60_000, &end) == CULVERT_OK)
        #expect(end == CULVERT_END_DESCRIPTOR)
    }

    @Test("culvert_wait returns at its timeout")
    func waitingEnds() throws {
        let side = try Side()
        try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32")
        #expect(culvert_wait(try side.handle, 0, nil) == CULVERT_TIMED_OUT)
        #expect(culvert_wait(try side.handle, 20, nil) == CULVERT_TIMED_OUT)
    }

    @Test("Running blocks until another thread stops it")
    func blockingRun() throws {
        let side = try Side()
        let run = BlockingRun(on: side.takeOutside(), hasHandle: true)
        let tunnel = try #require(run.handle())
        #expect(culvert_stop(tunnel) == CULVERT_OK)
        run.join()
        #expect(run.result.map(Int.init) == CULVERT_OK, "\(run.message)")
        #expect(run.end.map(Int.init) == CULVERT_END_REQUESTED)
        #expect(culvert_free(tunnel) == CULVERT_OK)
    }

    // Many, since the descriptor is shut down at another moment of the start each time.
    @Test("Running without a handle ends with the descriptor", arguments: 0..<20)
    func blockingRunWithoutHandle(_ turn: Int) throws {
        let side = try Side()
        let run = BlockingRun(on: side.takeOutside(), hasHandle: false)
        shutdown(side.inside, Int32(2))
        run.join()
        #expect(run.result.map(Int.init) == CULVERT_OK, "\(run.message)")
        #expect(run.end.map(Int.init) == CULVERT_END_DESCRIPTOR)
    }

    @Test("Inside of the log function, what would wait for it is refused")
    func callback() throws {
        final class Box: Sendable {
            let results = Mutex<[culvert_result]>([])
            let tunnel = Mutex<UInt>(0)
        }
        let box = Box()
        let side = try Side()
        try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32") { options in
            options.log_level = culvert_log_level(CULVERT_LOG_VERBOSE)
            options.log_context = Unmanaged.passUnretained(box).toOpaque()
            options.log = { _, _, context in
                guard let context = context else { return }
                let box = Unmanaged<Box>.fromOpaque(context).takeUnretainedValue()
                guard let tunnel = OpaquePointer(bitPattern: box.tunnel.withLock { $0 }) else { return }
                let results = [culvert_stop(tunnel), culvert_wait(tunnel, -1, nil), culvert_free(tunnel)]
                box.results.withLock { $0 = results }
            }
        }
        box.tunnel.withLock { $0 = UInt(bitPattern: (try? side.handle)) }
        #expect(culvert_rebind(try side.handle, nil) == CULVERT_OK)
        // Frees it; all messages are delivered by then.
        #expect(side.free() == CULVERT_OK)
        #expect(box.results.withLock { $0 }.allSatisfy { $0 == CULVERT_IN_CALLBACK })
        #expect(box.results.withLock { $0.count } == 3)
    }

    @Test("A new configuration takes effect immediately, and an invalid one changes nothing")
    func reconfiguring() throws {
        let (first, second) = try pair()
        #expect(second.write(TestPacket.make(from: 2, to: 1, number: 1)))
        #expect(first.read() != nil)
        var error = culvert_error()
        #expect(culvert_configure(try second.handle, "public_key=12\n", &error) == CULVERT_INVALID_CONFIGURATION)
        #expect(CText.of(&error.message).contains("line"))
        #expect(try second.status.peer_count == 1)
        #expect(culvert_configure(try second.handle, "replace_peers=true\n", &error) == CULVERT_OK)
        #expect(try second.status.peer_count == 0)
    }

    @Test("Impossible options are refused, with the reason", arguments: Refusal.all)
    func refusals(refusal: Refusal) throws {
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, refusal.socketKind, 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        var options = culvert_options()
        culvert_options_init(&options)
        options.descriptor = ends[0]
        refusal.change(&options)
        var tunnel = OpaquePointer(bitPattern: 1)
        var error = culvert_error()
        #expect(culvert_start(&options, refusal.text, &tunnel, &error) == refusal.result)
        #expect(error.result == refusal.result)
        let message = CText.of(&error.message)
        #expect(message.contains(refusal.words), "\(message)")
        #expect(!message.contains(Refusal.key))
        #expect(tunnel == nil)
    }

    @Test("A tunnel that no call could end is not started in the background")
    func nowhere() {
        var options = culvert_options()
        culvert_options_init(&options)
        var error = culvert_error()
        #expect(culvert_start(&options, "", nil, &error) == CULVERT_INVALID_ARGUMENT)
        #expect(culvert_free(nil) == CULVERT_OK)
        #expect(String(cString: culvert_version()) == CulvertVersion.text.description)
    }
}

struct Refusal: Sendable, CustomTestStringConvertible {
    static let key = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
    private static let good = "[Interface]\nPrivateKey = \(key)\n"
    private static let packets: Int32 = 5

    let testDescription: String
    var socketKind = packets
    var text = good
    var change: @Sendable (inout culvert_options) -> Void = { _ in }
    let result: culvert_result
    let words: String

    init(
        _ name: String, socketKind: Int32 = packets, text: String = good, _ result: Int, _ words: String,
        _ change: @escaping @Sendable (inout culvert_options) -> Void = { _ in }
    ) {
        testDescription = name
        self.socketKind = socketKind
        self.text = text
        self.result = culvert_result(result)
        self.words = words
        self.change = change
    }

    static let all = [
        Refusal("no size", CULVERT_INVALID_ARGUMENT, "culvert_options_init") { $0.size = 3 },
        Refusal("no such format", CULVERT_INVALID_ARGUMENT, "format 9") { $0.format = 9 },
        Refusal("tiny MTU", CULVERT_INVALID_ARGUMENT, "MTU 100") { $0.mtu = 100 },
        Refusal("three threads", CULVERT_INVALID_ARGUMENT, "not 3") { $0.threads = 3 },
        Refusal("no such log level", CULVERT_INVALID_ARGUMENT, "log level -1") { $0.log_level = -1 },
        Refusal("too little memory", CULVERT_INVALID_ARGUMENT, "1000") { $0.memory = 1000 },
        Refusal("no descriptor", CULVERT_INVALID_DESCRIPTOR, "-1") { $0.descriptor = -1 },
        Refusal("a stream", socketKind: 1, CULVERT_INVALID_DESCRIPTOR, "preserves message boundaries") {
            $0.format = culvert_format(CULVERT_FORMAT_PACKETS)
        },
        Refusal("no interface", CULVERT_INVALID_DESCRIPTOR, "TUN device") {
            $0.format = culvert_format(CULVERT_FORMAT_INTERFACE)
        },
        Refusal("empty", text: "", CULVERT_INVALID_CONFIGURATION, "private key"),
        Refusal("no key", text: "listen_port=1\n", CULVERT_INVALID_CONFIGURATION, "private key"),
        Refusal(
            "not UTF-8 words", text: "[Interface]\nPrivateKey = abc\n", CULVERT_INVALID_CONFIGURATION, "PrivateKey"),
        Refusal(
            "key cut short", text: "[Interface]\nPrivateKey = \(key.dropLast(3))\n", CULVERT_INVALID_CONFIGURATION,
            "fix"),
        Refusal("protocol nonsense", text: "private_key=zz\n", CULVERT_INVALID_CONFIGURATION, "line 2"),
        Refusal(
            "a name without address",
            text: good + "[Peer]\nPublicKey = \(key)\nEndpoint = no-such-host.invalid:51820\n", CULVERT_NO_ADDRESS,
            "no-such-host.invalid"),
    ]
}
