// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Foundation
import PacketTunnel
import Testing

@testable import culvert

@Suite("culvert status, with a service", .timeLimit(.minutes(2)))
struct StatusToolTests {
    private let folder: ScratchFolder
    private let captured = CapturedConsole()
    private let host = FakeHost()

    init() throws { folder = try ScratchFolder() }

    private var tool: StatusTool {
        StatusTool(
            runtime: RuntimeDirectory(path: folder.path), console: captured.console(), patience: .seconds(60))
    }

    private func status(_ body: () async throws(CommandProblem) -> Int32) async -> Int32 {
        do throws(CommandProblem) { return try await body() } catch { return error.status }
    }

    @Test("No tunnel, one that is up, one that died")
    func list() async throws {
        try await tool.list(json: false)
        #expect(captured.output == "no tunnel is up\n")
        host.set(.connected)
        let service = try host.serve("one", in: folder)
        try folder.write("", to: "two.journal")
        try folder.write("", to: "no tunnel's name.journal")
        try await tool.list(json: false)
        let rows = captured.output.split(separator: "\n").suffix(2).map { $0.split(separator: " ").prefix(2) }
        #expect(rows == [["one", "connected"], ["two", "dead"]])
        let json = CapturedConsole()
        try await StatusTool(runtime: tool.runtime, console: json.console(), patience: .seconds(60)).list(json: true)
        let document = try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: [[String: Any]]]
        #expect(document?["tunnels"]?.map { $0["state"] as? String } == ["connected", "dead"])
        await service.close()
    }

    @Test("One tunnel is shown with its rates")
    func detail() async throws {
        host.set(.connected)
        let service = try host.serve("one", in: folder)
        try await tool.detail("one", json: true)
        let document = try JSONSerialization.jsonObject(with: Data(captured.output.utf8)) as? [String: [[String: Any]]]
        let tunnel = try #require(document?["tunnels"]?.first)
        #expect(tunnel["receivedBytes"] as? Int == 2000)
        // A thousand bytes in half a second or more.
        let rate = try #require(tunnel["receivedBitsPerSecond"] as? Double)
        #expect(rate > 0 && rate <= 16_000)
        #expect(
            await status { () throws(CommandProblem) in
                try await tool.detail("none", json: false)
                return 0
            } == ExitStatus.notFound)
        await service.close()
    }

    @Test("A tunnel is watched through a reconnection until its end, which is reported")
    func watch() async throws {
        host.set(.connected)
        let service = try host.serve("one", in: folder)
        let (tool, host, captured) = (tool, host, captured)
        let watching = Task {
            await status { () throws(CommandProblem) in try await tool.watch(nil, every: .milliseconds(5), json: false)
            }
        }
        func seen(_ text: String) async throws {
            try #require(await captured.waits { $0.contains(text) }, "\(text) in \(captured.output)")
        }
        try await seen("one  connected")
        try await seen("kbit/s")
        host.set(.reasserting)
        try await seen("one  reasserting")
        host.set(.blocked, TunnelError(.connectivityLost, "gone"))
        try await seen("one  blocked")
        host.set(.connected)
        try await seen("blocked")
        host.set(.disconnected, TunnelError(.connectivityLost, "nothing comes through"))
        #expect(await watching.value == ExitStatus.unreachable)
        #expect(captured.output.hasSuffix("one: the tunnel is down: nothing comes through\n"))
        await service.close()
    }

    @Test("Watching ends with the process, with the task, and immediately if there is no tunnel")
    func watchEnds() async throws {
        host.set(.connected)
        var service: TunnelService? = try host.serve("one", in: folder)
        let (tool, captured) = (tool, captured)
        func watch() -> Task<Int32, Never> {
            Task {
                await status { () throws(CommandProblem) in
                    try await tool.watch("one", every: .milliseconds(5), json: true)
                }
            }
        }
        let cancelled = watch()
        #expect(await captured.waits { $0.split(separator: "\n").count >= 3 })
        cancelled.cancel()
        #expect(await cancelled.value == ExitStatus.interrupted)
        for line in captured.output.split(separator: "\n") {
            #expect(try JSONSerialization.jsonObject(with: Data(line.utf8)) is [String: Any])
        }
        let dying = watch()
        let count = captured.output.count
        #expect(await captured.waits { $0.count > count })
        withExtendedLifetime(service) {}
        service = nil
        #expect(await dying.value == ExitStatus.failure)
        #expect(captured.error.contains("ended without a word"))
        #expect(await watch().value == ExitStatus.notFound)
    }

    @Test(
        "A folder that cannot be read is an error, not an empty list",
        .enabled(if: geteuid() != 0, "root can read every folder"))
    func forbidden() async throws {
        try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: folder.path)
        #expect(throws: CommandProblem.self) { try tool.runtime.tunnels() }
    }
}
