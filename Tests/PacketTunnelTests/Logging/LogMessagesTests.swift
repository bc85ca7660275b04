// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("The log over messages", .timeLimit(.minutes(5)))
struct LogMessagesTests {
    /// A host whose provider answers nothing, with a log.
    private struct Scene {
        let directory: ScratchDirectory
        let file: RingLogFile
        let host: MemoryHost<ScriptedProvider>
        let client: MessageClient

        init(level: Logger.Level = .info, geometry: RingLogGeometry = .standard) throws {
            directory = try ScratchDirectory()
            let file = try RingLogFile(path: directory.file("log"), geometry: geometry)
            self.file = file
            let logger = Logger(label: "tunnel") {
                RedactingLogHandler(label: $0, origin: .extension, logLevel: level, sinks: [file])
            }
            host = MemoryHost(logger: logger, log: file) { ScriptedProvider(Script()) }
            client = MessageClient(channel: host)
        }

        func all(_ request: LogRequest = LogRequest()) async throws -> [LogRecord] {
            var (request, records) = (request, [LogRecord]())
            while true {
                let page = try await client.send(request)
                records += page.records
                request.after = page.position
                guard page.hasMore else { return records }
            }
        }
    }

    @Test("A host answers for its log by itself: before the tunnel is up, while it is, and when it has failed")
    func always() async throws {
        let scene = try Scene()
        scene.file.append(LogRecordTests.record("before"))
        #expect(try await scene.all().map(\.message) == ["before"])
        try await scene.host.start(TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8)))
        #expect(try await scene.all().map(\.message).last == "tunnel connected")
        await scene.host.stop(.userInitiated)
        let records = try await scene.all()
        #expect(records.map(\.message).last == "tunnel disconnected")
        #expect(records == scene.file.records())
        // Other messages go to the provider.
        #expect(await caught { try await scene.client.send(Echo(text: "x")) } == .closed)
    }

    @Test("A page continues after the previous one, and every record arrives once")
    func pages() async throws {
        let scene = try Scene()
        for number in 0..<500 {
            scene.file.append(LogRecordTests.record("\(number) " + String(repeating: "x", count: 1_000)))
        }
        var (request, pages, seen) = (LogRequest(), 0, [LogRecord]())
        while true {
            let page = try await scene.client.send(request)
            (pages, seen, request.after) = (pages + 1, seen + page.records, page.position)
            #expect(page.records.reduce(0) { $0 + $1.message.utf8.count } <= LogPage.maximumByteCount)
            guard page.hasMore else { break }
        }
        #expect(seen == scene.file.records() && pages > 4)
        #expect(try await scene.client.send(request).records.isEmpty)
        scene.file.append(LogRecordTests.record("next"))
        #expect(try await scene.client.send(request).records.map(\.message) == ["next"])
        // A log that was cleared starts again at its first record.
        request.after = .max
        #expect(try await !scene.client.send(request).records.isEmpty)
    }

    @Test("Only records of the requested levels arrive")
    func levels() async throws {
        let scene = try Scene()
        for level in Logger.Level.allCases {
            var record = LogRecordTests.record(level.rawValue)
            record.level = level
            scene.file.append(record)
        }
        #expect(try await scene.all(LogRequest(minimumLevel: .error)).map(\.message) == ["error", "critical"])
        // Skipped records are not read again.
        let page = try await scene.client.send(LogRequest(minimumLevel: .critical))
        #expect(page.position == scene.file.records().last?.sequence)
    }

    @Test("A line arrives as it was written, fields and all")
    func fields() async throws {
        let scene = try Scene()
        var record = LogRecordTests.record(
            "two\nlines", fields: [LogRecord.Field("peer", "3"), LogRecord.Field("peer", "again")])
        record.sequence = try #require(scene.file.append(record))
        #expect(try await scene.all() == [record])
    }

    @Test("A subscriber gets present and new lines, over any channel")
    func follows() async throws {
        let scene = try Scene()
        scene.file.append(LogRecordTests.record("past"))
        let pages = try await scene.client.subscribe(to: LogSubscription())
        var (iterator, seen) = (pages.makeAsyncIterator(), [String]())
        seen += try #require(try await iterator.next()).records.map(\.message)
        #expect(seen == ["past"])
        for number in 1...3 { scene.file.append(LogRecordTests.record("\(number)")) }
        while seen.count < 4 { seen += try #require(try await iterator.next()).records.map(\.message) }
        #expect(seen == ["past", "1", "2", "3"])
        pages.cancel()

        // From a position on, at a level.
        let position = try #require(scene.file.records().last?.sequence)
        let later = try await scene.client.subscribe(to: LogSubscription(after: position, minimumLevel: .error))
        var record = LogRecordTests.record("quiet")
        scene.file.append(record)
        (record.level, record.message) = (.error, "loud")
        scene.file.append(record)
        var iterating = later.makeAsyncIterator()
        #expect(try await iterating.next()?.records.map(\.message) == ["loud"])
        later.cancel()
    }

    @Test("A tunnel of another process gives its log by the socket of its service")
    func service() async throws {
        let scene = try Scene()
        scene.file.append(LogRecordTests.record("line"))
        let folder = try ScratchDirectory.Box()
        let service = try TunnelService(host: scene.host, path: folder.path + "/s")
        let channel = UnixTunnelChannel(path: folder.path + "/s")
        let client = MessageClient(channel: channel)
        #expect(try await client.send(LogRequest()).records.map(\.message) == ["line"])
        let pages = try await client.subscribe(to: LogSubscription())
        var iterator = pages.makeAsyncIterator()
        #expect(try await iterator.next()?.records.map(\.message) == ["line"])
        pages.cancel()
        await service.close(within: .seconds(60))
    }

    @Test("A host without a log returns an error with the remedy")
    func none() async throws {
        let host = MemoryHost { ScriptedProvider(Script()) }
        let client = MessageClient(channel: host)
        guard case .handlerFailed(let failure) = await caught({ try await client.send(LogRequest()) }) else {
            return #expect(Bool(false), "a host without a log has one")
        }
        #expect(failure.code == "no-log" && failure.message.contains("give its host one"))
        let error = await caught { for try await _ in try await client.subscribe(to: LogSubscription()) {} }
        #expect(error == .handlerFailed(failure))
    }
}

@Suite("Log lines of messages and managers", .timeLimit(.minutes(5)))
struct MessagingLogTests {
    private struct Sink {
        let directory: ScratchDirectory
        let file: RingLogFile

        init() throws {
            directory = try ScratchDirectory()
            file = try RingLogFile(path: directory.file("log"))
        }

        func logger(_ label: String) -> Logger {
            Logger(label: label) { RedactingLogHandler(label: $0, origin: .app, logLevel: .debug, sinks: [file]) }
        }

        var lines: [String] { file.records().map { "\($0.level) \($0.label): \($0.message)" } }
    }

    @Test("Router and client log each request and its result, and not its contents")
    func messages() async throws {
        let sink = try Sink()
        let router = MessageRouter(logger: sink.logger("router"))
        router.on(Echo.self) { message in
            guard message.text != "bad" else { throw HandlerFailure(code: "bad", message: "it is bad") }
            return Echo.Reply(text: message.text)
        }
        let client = MessageClient(channel: MemoryMessageChannel(router: router), logger: sink.logger("client"))
        _ = try await client.send(Echo(text: "what is said"))
        _ = await caught { try await client.send(Echo(text: "bad")) }
        _ = await caught { try await client.send(EchoLouder(text: "what is said")) }
        _ = await router.respond(to: [1, 2, 3])
        let lines = sink.lines
        #expect(lines.contains { $0.hasPrefix("debug router: 'test.echo' was answered with") })
        #expect(lines.contains("debug client: 'test.echo' has its reply"))
        #expect(lines.contains("warning router: 'test.echo', version 1, has no reply: it is bad"))
        #expect(lines.contains("warning client: 'test.echo' has no reply: it is bad"))
        #expect(lines.contains { $0.hasPrefix("warning router: 'test.echo', version 2, has no reply: ") })
        #expect(lines.contains { $0.hasPrefix("warning router: a message has no reply: ") })
        #expect(!lines.contains { $0.contains("what is said") })
    }

    @Test("A manager logs its operations with the profile, its tunnel's status, and failures")
    func manager() async throws {
        let sink = try Sink()
        let secrets = MemorySecretStore()
        let script = Script()
        let manager = TunnelManager(store: MemoryProfileStore(), secrets: secrets, logger: sink.logger("manager")) {
            _ in
            MemoryHost(secrets: secrets) { ScriptedProvider(script) }
        }
        try await manager.load()
        var profile = TunnelProfile(name: "one", provider: "script", configuration: .object(["name": .string("one")]))
        try await manager.create(profile, secrets: ["private-key": SecretBytes(Array("hidden".utf8))])
        profile.name = "two"
        try await manager.update(profile)
        try await manager.start(profile.id)
        try await manager.stop(profile.id)
        script.plan.start = .fail(TunnelError(.serverUnreachable, "no answer"))
        await #expect(throws: TunnelError.self) { try await manager.start(profile.id) }
        try await manager.remove(profile.id)
        let records = sink.file.records()
        let lines = sink.lines
        for expected in [
            "info manager: the profile was created", "info manager: the profile was changed",
            "info manager: starting the tunnel", "info manager: stopping the tunnel: userInitiated",
            "error manager: the tunnel did not start: no answer", "info manager: the profile was removed",
        ] {
            #expect(lines.contains(expected), "\(expected) is not in \(lines)")
        }
        #expect(lines.contains("info manager: tunnel connected"))
        #expect(records.allSatisfy { $0.fields.isEmpty || $0.fields == [LogRecord.Field("profile", profile.id)] })
        #expect(!lines.contains { $0.contains("hidden") })
    }
}
