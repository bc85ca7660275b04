// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import TunnelSystem

@testable import PacketTunnel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A message as commit 5dd603b wrote it, built without the code that writes messages now.
private struct OldMessage: Equatable {
    enum Kind: UInt8 {
        case request = 1
        case reply, error, subscribe, element, end
    }

    var kind: Kind
    var name: String
    var correlation: UInt64 = 7
    var json: String

    private static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }

    var bytes: [UInt8] {
        var bytes = Array("CVTM".utf8) + [1, kind.rawValue, 0, 1]
        bytes += Self.bigEndian(correlation, 8)
        bytes += Self.bigEndian(UInt64(name.utf8.count), 2) + Self.bigEndian(UInt64(json.utf8.count), 4)
        return bytes + name.utf8 + json.utf8
    }

    init(_ kind: Kind, _ name: String, _ json: String, correlation: UInt64 = 7) {
        (self.kind, self.name, self.json, self.correlation) = (kind, name, json, correlation)
    }

    init(_ bytes: [UInt8]) throws {
        try #require(bytes.count >= 22 && bytes.starts(with: Array("CVTM".utf8)))
        kind = try #require(Kind(rawValue: bytes[5]))
        correlation = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        let end = 22 + Int(bytes[16]) << 8 + Int(bytes[17])
        try #require(bytes.count >= end)
        name = String(decoding: bytes[22..<end], as: UTF8.self)
        json = String(decoding: bytes[end...], as: UTF8.self)
    }
}

/// A service of commit 5dd603b: it pushes statuses over the connection of the subscription.
private final class OldService: Sendable {
    private struct State {
        /// The provider's answer, in Base64.
        var answer = "Bwg="
        var status = "connected"
        var isOver = false
        var connections: [FrameConnection] = []
        var subscribers: [(connection: FrameConnection, correlation: UInt64)] = []
    }

    let requests = Eavesdropper<OldMessage>()
    var answer: String {
        get { state.withLock(\.answer) }
        set { state.withLock { $0.answer = newValue } }
    }
    private let loop: EventLoop
    private let acceptor = Mutex<UnixAcceptor?>(nil)
    private let state = Mutex(State())

    init(path: String) throws {
        loop = try EventLoop()
        let listener = try UnixListener(path: path, isGuarded: true)
        let made = try UnixAcceptor(listener, on: loop) { [weak self] descriptor in self?.welcome(descriptor) }
        acceptor.withLock { $0 = made }
        try loop.startThread(name: "old service")
    }

    deinit { close() }

    /// Ends the process: the socket and each connection.
    func close() {
        let connections = state.withLock { state in
            state.isOver = true
            defer { (state.connections, state.subscribers) = ([], []) }
            return state.connections
        }
        acceptor.withLock { $0 }?.close()
        for connection in connections { connection.close() }
        loop.stop()
    }

    private func welcome(_ descriptor: consuming OwnedDescriptor) {
        do throws(TunnelIOError) {
            let connection = try FrameConnection(descriptor, loop: loop, maximumByteCount: 1 << 20)
            state.withLock { $0.connections.append(connection) }
            Task { await self.answer(connection) }
        } catch {
            Issue.record("\(error)")
        }
    }

    private func answer(_ connection: FrameConnection) async {
        guard let bytes = try? await connection.read(), let request = try? OldMessage(bytes) else { return }
        requests.observe(request)
        switch (request.kind, request.name) {
        case (.subscribe, "culvert.tunnel.status"):
            state.withLock { $0.subscribers.append((connection, request.correlation)) }
            send(.element, request, #"{"status":"\#(state.withLock { $0.status })"}"#, on: connection)
            return
        case (.request, "culvert.tunnel.message"): send(.reply, request, #"{"answer":"\#(answer)"}"#, on: connection)
        case (.request, "culvert.tunnel.stop"):
            let subscribers = state.withLock { state in
                state.status = "disconnected"
                return state.subscribers
            }
            for (subscriber, correlation) in subscribers {
                let subscription = OldMessage(.subscribe, "culvert.tunnel.status", "{}", correlation: correlation)
                send(.element, subscription, #"{"status":"disconnected"}"#, on: subscriber)
            }
            send(.reply, request, "{}", on: connection)
        default: send(.error, request, #"{"code":"no-handler","name":"\#(request.name)"}"#, on: connection)
        }
        connection.close()
    }

    private func send(_ kind: OldMessage.Kind, _ request: OldMessage, _ json: String, on connection: FrameConnection) {
        let answer = OldMessage(kind, request.name, json, correlation: request.correlation)
        // The client may have closed the connection.
        _ = try? connection.send(answer.bytes)
    }
}

@Suite("Apps and services of different versions", .timeLimit(.minutes(2)))
struct UpgradeTests {
    @Test("A service answers the messages of commit 5dd603b")
    func oldApp() async throws {
        let directory = try ScratchDirectory.Box()
        let path = directory.path + "/s"
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        let service = try TunnelService(host: host, path: path)
        let loop = try EventLoop()
        try loop.startThread(name: "old app")
        defer { loop.stop() }

        func open(_ message: OldMessage) async throws -> FrameConnection {
            let connection = try FrameConnection(
                UnixSocket.connect(to: path), loop: loop, maximumByteCount: 1 << 20)
            if try !connection.send(message.bytes) { #expect(await connection.drained()) }
            return connection
        }
        func reply(_ name: String, _ json: String) async throws -> [UInt8]? {
            try await open(OldMessage(.request, name, json)).read()
        }

        let name = Array(#"{"name":"x"}"#.utf8)
        let start = #"{"request":{"configuration":\#(name),"leakPolicy":"routeBased"}}"#
        #expect(
            try await reply("culvert.tunnel.start", start) == OldMessage(.reply, "culvert.tunnel.start", "{}").bytes)
        let statuses = try await open(OldMessage(.subscribe, "culvert.tunnel.status", "{}"))
        #expect(
            try await statuses.read()
                == OldMessage(.element, "culvert.tunnel.status", #"{"status":"connected"}"#).bytes)
        script.plan.answers = [7, 8]
        #expect(
            try await reply("culvert.tunnel.message", #"{"message":"AQID"}"#)
                == OldMessage(.reply, "culvert.tunnel.message", #"{"answer":"Bwg="}"#).bytes)
        #expect(
            try await reply("culvert.tunnel.stop", #"{"reason":"userInitiated"}"#)
                == OldMessage(.reply, "culvert.tunnel.stop", "{}").bytes)
        await service.close(within: .seconds(60))
        var told: [OldMessage] = []
        while let frame = try await statuses.read() { told.append(try OldMessage(frame)) }
        #expect(told.last == OldMessage(.end, "culvert.tunnel.status", ""))
        #expect(told.dropLast().last == OldMessage(.element, "culvert.tunnel.status", #"{"status":"disconnected"}"#))
    }

    @Test("An app follows, asks and stops a tunnel whose service is of commit 5dd603b")
    func oldService() async throws {
        let directory = try ScratchDirectory.Box()
        let service = try OldService(path: directory.path + "/s")
        let channel = UnixTunnelChannel(path: directory.path + "/s")
        #expect(await channel.refresh().status == .connected)
        #expect(try await channel.sendMessage([1, 2, 3]) == [7, 8])
        let asked = service.requests.messages.first { $0.name == "culvert.tunnel.message" }
        #expect(asked?.json == #"{"message":"AQID"}"#)
        let down = Task { [updates = channel.statusUpdates()] in await updates.first { $0.status == .disconnected } }
        try await channel.stop(.userInitiated)
        #expect(await down.value == TunnelStatusUpdate(.disconnected))
        #expect(channel.status.status == .disconnected)
        let asksToStop = service.requests.messages.first { $0.name == "culvert.tunnel.stop" }
        #expect(asksToStop?.json == #"{"reason":"userInitiated"}"#)
        // The service does not pass on a typed message, but what wraps it: here the provider answers another request.
        service.answer = Data(OldMessage(.reply, "test.echo", #"{"text":"a"}"#, correlation: 0).bytes)
            .base64EncodedString()
        let wrapped = await caught { try await MessageClient(channel: channel).send(Echo(text: "a")) }
        #expect(wrapped == .undecodableReply("it answers another request"))
        #expect(service.requests.messages.suffix(2).map(\.name) == ["test.echo", "culvert.tunnel.message"])
        let ended = Task { await channel.serviceEnd() }
        service.close()
        await ended.value
        #expect(await channel.refresh().status == .disconnected)
    }
}
