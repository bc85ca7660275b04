// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Foundation
import PacketTunnel
import Testing

@testable import culvert

@Suite("Commands for a tunnel that was started before an upgrade", .timeLimit(.minutes(2)))
struct OldServiceTests {
    private let folder: ScratchFolder
    private let captured = CapturedConsole()

    init() throws { folder = try ScratchFolder() }

    private var runtime: RuntimeDirectory { RuntimeDirectory(path: folder.path) }

    /// The report of commit 5dd603b.
    private static let report = """
        {"addresses":["10.7.0.2/32"],"allowedNetworks":[],"allowsLocalNetwork":true,"dnsServers":["10.7.0.1"],\
        "excludedRoutes":[],"isEnrolled":false,"leakPolicy":"everything","mtu":1420,"name":"one","peers":[{"allowedIPs":\
        ["0.0.0.0/0"],"endpoint":"192.0.2.1:51820","persistentKeepalive":25,"publicKey":"k"}],"processID":4711,\
        "publicKey":"own","repairs":2,"residentBytes":1000000,"routes":["0.0.0.0/0"],"searchDomains":[],"source":"/one.conf",\
        "startedAt":1790000000.5,"status":{"status":"connected"},"version":"0.9","wireGuard":{"drops":{},"listenPort":51821,\
        "peers":[{"lastHandshakeAge":3.5,"publicKey":"k","receivedBytes":2000,"sentBytes":300}],"pingReplies":0,\
        "pingsSent":0,"publicKey":"own","state":"connected"}}
        """
    /// The reply to a request for lines of the log.
    private static let lines = #"{"lines":[{"level":"info","sequence":3,"text":"a line"}]}"#

    /// The reply of commit 5dd603b to a request: the request's header with another kind, then name and JSON.
    private static func reply(to request: [UInt8]) -> [UInt8]? {
        let end = 22 + Int(request[16]) << 8 + Int(request[17])
        let name = request[22..<end]
        let json: String
        switch String(decoding: name, as: UTF8.self) {
        case "culvert.service.report": json = report
        case "culvert.service.log": json = lines
        case "culvert.tunnel.stop": json = "{}"
        default: return nil
        }
        let length = (0..<4).reversed().map { UInt8(truncatingIfNeeded: json.utf8.count >> (8 * $0)) }
        var reply = Array(request[..<5])
        reply.append(2)
        reply += request[6..<18]
        reply += length
        reply += name
        reply += json.utf8
        return reply
    }

    /// Serves tunnel `one`.
    private func serve() throws -> UnixMessageServer {
        let router = MessageRouter()
        router.otherwise { request in Self.reply(to: request) }
        return try UnixMessageServer(configuration: .init(path: runtime.socket("one")), router: router)
    }

    @Test("`culvert status` shows it")
    func status() async throws {
        let server = try serve()
        try await StatusTool(runtime: runtime, console: captured.console(), patience: .seconds(60)).list(json: true)
        let document = try JSONSerialization.jsonObject(with: Data(captured.output.utf8)) as? [String: [[String: Any]]]
        let tunnel = try #require(document?["tunnels"]?.first)
        #expect(tunnel["state"] as? String == "connected")
        #expect(tunnel["processID"] as? Int == 4711)
        #expect(tunnel["receivedBytes"] as? Int == 2000)
        #expect(tunnel["sentBytes"] as? Int == 300)
        #expect(tunnel["lastHandshakeSeconds"] as? Double == 3.5)
        #expect(tunnel["repairs"] as? Int == 2)
        #expect(tunnel["addresses"] as? [String] == ["10.7.0.2/32"])
        #expect((tunnel["peers"] as? [[String: Any]])?.first?["endpoint"] as? String == "192.0.2.1:51820")
        server.close()
    }

    @Test("`culvert log` shows its lines")
    func log() async throws {
        let server = try serve()
        let tool = LogTool(runtime: runtime, console: captured.console())
        try await tool.show(from: UnixTunnelChannel(path: runtime.socket("one")), "one", follows: false)
        #expect(captured.output == "a line\n")
        server.close()
    }

    @Test("A stop reaches it")
    func stop() async throws {
        let server = try serve()
        let channel = UnixTunnelChannel(path: runtime.socket("one"))
        #expect(try await channel.messages.send(ServiceReportRequest()).processID == 4711)
        try await channel.stop(.userInitiated)
        server.close()
    }
}
