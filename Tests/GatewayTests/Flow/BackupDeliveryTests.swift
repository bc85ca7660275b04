// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import GRDB
import PacketTunnelTesting
import Testing
import TunnelIO
import TunnelSystem

@testable import Gateway

@Suite("Delivery of backups", .timeLimit(.minutes(5)))
struct BackupDeliveryTests {
    private static let passphrase = "correct horse battery"

    /// Requests a backup on the socket, and reads at most this number of bytes.
    private func request(_ socket: String, limit: Int) async throws -> [UInt8]? {
        try await WorkThreads(name: "client", count: 1).run {
            let body = #"{"passphrase":"\#(Self.passphrase)"}"#
            let head = """
                POST /v1/backups HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n
                """
            guard let connection = try? UnixSocket.connect(to: socket, isBlocking: true),
                SystemCall.writeAll(connection.number, Array((head + body).utf8))
            else { return nil }
            var (reply, part) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
            while reply.count < limit {
                let count = unsafe part.withUnsafeMutableBytes {
                    unsafe SystemCall.read(connection.number, into: $0)
                }
                guard count > 0 else { return count == 0 ? reply : nil }
                reply += part[..<count]
            }
            return reply
        } ?? nil
    }

    /// The content of a body in the chunked coding.
    private func content(_ reply: [UInt8]) throws -> [UInt8] {
        let end = Array("\r\n".utf8)
        var rest = reply[try #require(reply.firstRange(of: end + end)).upperBound...]
        var content: [UInt8] = []
        while true {
            let line = rest.prefix { $0 != end[0] }
            let size = try #require(Int(String(decoding: line, as: UTF8.self), radix: 16))
            rest = rest.dropFirst(line.count + 2)
            guard size > 0 else { break }
            content += rest.prefix(size)
            rest = rest.dropFirst(size + 2)
        }
        #expect(Array(rest) == end)
        return content
    }

    @Test("A backup of over 64 MB is restored, and only a delivered backup is in the audit log")
    func large() async throws {
        try await TestFolder.use { folder in
            let log = CapturedLog()
            let scene = try await FlowScene(folder, logger: log.logger)
            let socket = scene.process.service.settings.socket
            let store = scene.process.store
            try await store.connections.write { db in
                for _ in 0..<70 {
                    try db.execute(
                        sql: """
                            INSERT INTO audit (at, actor, action, subject, details)
                            VALUES (0, 'test', 'userAdded', 'test', hex(randomblob(500000)))
                            """)
                }
            }
            func delivered() async throws -> Int {
                let page = try await store.audit(AuditFilter(action: .backupMade), PageRequest())
                return page.items.count
            }
            #expect(try await request(socket, limit: 100_000)?.count ?? 0 >= 100_000)
            #expect(
                await waitUntil(timeout: .seconds(60), pollEvery: .milliseconds(20)) {
                    log.text.contains("a backup was not delivered")
                })
            #expect(try await delivered() == 0)

            let file = try content(try #require(try await request(socket, limit: .max)))
            #expect(file.count > 1 << 26)
            #expect(try await delivered() == 1)
            await scene.stop()
            let restored = try await GatewayBackup.restore(
                file, to: "\(folder)/restored", passphrase: Array(Self.passphrase.utf8))
            #expect(restored.lastEntry?.record.action == .backupMade)
            #expect(restored.lastEntry?.record.actor == Caller.local(geteuid()).name)
            #expect(FileStatus(of: restored.directory.database)?.size ?? 0 > 1 << 26)
        }
    }
}
