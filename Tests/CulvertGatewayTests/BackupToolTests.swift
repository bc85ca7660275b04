// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import CommandLineTesting
    import FoundationEssentials
    import PacketTunnelLinux
    import Provisioning
    import Synchronization
    import Testing
    import TunnelSystem

    @testable import Gateway

    @Suite("A backup is complete or an error, and a restore reports its effects", .timeLimit(.minutes(2)))
    struct BackupToolTests {
        private static let passphrase = "correct horse battery"
        private static let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n"

        /// A backup with two chunks.
        private static func backup() throws -> [UInt8] {
            var encryptor = try BackupEncryptor(
                passphrase: Array(passphrase.utf8), cost: .init(log2N: 4, r: 8, p: 1), random: RandomSource())
            let chunk = [UInt8](repeating: 7, count: BackupFormat.chunk)
            let parts = [
                try encryptor.seal(chunk[...], isLast: false), try encryptor.seal(chunk[..<9000], isLast: true),
            ]
            return encryptor.header + parts.flatMap { $0 }
        }

        private static func whole(_ body: [UInt8], length: Int? = nil) -> [UInt8] {
            Array((head + "Content-Length: \(length ?? body.count)\r\n\r\n").utf8) + body
        }

        private static func chunked(_ body: [UInt8]) -> [UInt8] {
            var reply = Array((head + "Transfer-Encoding: chunked\r\n\r\n").utf8)
            for start in stride(from: 0, to: body.count, by: 300_000) {
                let part = body[start..<min(start + 300_000, body.count)]
                reply += Array((String(part.count, radix: 16) + "\r\n").utf8) + part + Array("\r\n".utf8)
            }
            return reply + Array("0\r\n\r\n".utf8)
        }

        private func use(_ body: (Folder, AnsweringSocket, [String]) async throws -> Void) async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                try Data(Self.passphrase.utf8).write(to: URL(filePath: "\(folder.path)/passphrase"))
                let api = try AnsweringSocket(folder, isFull: true)
                try await body(
                    folder, api, ["\(folder.path)/file", "--passphrase-file", "\(folder.path)/passphrase"])
            }
        }

        @Test("A backup that is not complete is an error that names the file, and leaves nothing behind")
        func truncated() async throws {
            let file = try Self.backup()
            let (whole, chunked) = (Self.whole(file), Self.chunked(file))
            try await use { folder, api, arguments in
                let names = Set(try #require(FolderContents.names(folder.path)))
                for (reply, words) in [
                    ([], "truncated"), (Array(whole[..<20]), "truncated"), (Array(whole[..<219_000]), "truncated"),
                    (Array(whole.dropLast()), "truncated"), (Self.whole(file, length: 1 << 30), "truncated"),
                    (Array(chunked[..<219_000]), "truncated"), (Array(chunked.dropLast(5)), "truncated"),
                    (Array(chunked.dropLast(2)), "truncated"),
                    // The reply is complete, but the file is not.
                    (Self.whole(Array(file[..<219_000])), "damaged"),
                    (Self.chunked(Array(file.dropLast(9016))), "damaged"),
                    (Self.chunked(Array(file.dropLast(1))), "damaged"), (Self.chunked([]), "not a backup"),
                    (Array((Self.head + "\r\n").utf8) + file.prefix(1000), "not valid HTTP"),
                    (Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".utf8), "not valid HTTP"),
                ] as [([UInt8], String)] {
                    api.answer(with: reply)
                    let outcome = try await api.run("backup", arguments)
                    #expect(outcome.status == ExitStatus.failure, "\(outcome.output)")
                    #expect(
                        outcome.output.contains("\(folder.path)/file was not written")
                            && outcome.output.contains(words), "\(words): \(outcome.output)")
                    #expect(Set(FolderContents.names(folder.path) ?? []) == names)
                }
            }
        }

        @Test("A complete backup is written for its owner only, and never replaces a file")
        func complete() async throws {
            let file = try Self.backup()
            try await use { folder, api, arguments in
                for reply in [Self.whole(file), Self.chunked(file)] {
                    api.answer(with: reply)
                    let outcome = try await api.run("backup", arguments)
                    #expect(outcome.status == 0 && outcome.output.contains("the backup is in \(arguments[0])"))
                    #expect(try Data(contentsOf: URL(filePath: arguments[0])) == Data(file))
                    #expect(FileStatus(of: arguments[0])?.mode == 0o600)
                    let again = try await api.run("backup", arguments)
                    #expect(again.status == ExitStatus.usage && again.output.contains("File exists"))
                    unsafe _ = unlink(arguments[0])
                }
                #expect(FolderContents.names(folder.path)?.contains { $0.hasPrefix("file") } == false)
            }
        }

        @Test("A restore prints the time of the backup, the access that it has ended again, and the next steps")
        func restore() async throws {
            try await use { folder, _, arguments in
                let start = Date(timeIntervalSince1970: 1_767_225_600)
                func audit(_ action: AuditRecord.Action, _ subject: String) -> AuditRecord {
                    AuditRecord(at: start, actor: "local:0", source: nil, action: action, subject: subject)
                }
                let directory = try GatewayDirectory(existing: folder.gateway)
                let store = try directory.openStore()
                let user = User(id: try #require(RandomID(AnsweringSocket.id)), login: "anna", createdAt: start)
                let subject = "user:\(user.id)"
                _ = try await store.add(user, nil, audit(.userAdded, subject))
                let content = try await GatewayBackup.make(
                    directory, store, passphrase: Array(Self.passphrase.utf8), audit: audit(.backupMade, "gateway"),
                    cost: .init(log2N: 4, r: 8, p: 1), random: RandomSource())
                let file = Mutex<[UInt8]>([])
                try await content.write { part in file.withLock { $0 += part } }
                try Data(file.withLock { $0 }).write(to: URL(filePath: arguments[0]))
                try await store.remove(user: user.id, audit(.userRemoved, subject))
                try store.close()

                let restored = "\(folder.path)/restored"
                for (options, present, missing) in [
                    (
                        [],
                        [
                            "users that were removed or disabled", "1 users", "--revoke-since \(folder.gateway),",
                            "--no-tun",
                        ],
                        "Ended again"
                    ),
                    (
                        ["--revoke-since", folder.gateway],
                        ["Ended again:\n  \(subject) (anna): removed\n", "0 users"],
                        "is valid again"
                    ),
                ] {
                    let outcome = try AnsweringSocket.run(
                        ["restore"] + arguments + ["--directory", restored] + options)
                    #expect(outcome.status == 0, "\(outcome.output)")
                    for words in present + ["The backup was made at 2026-01-01T00:00:00Z.", "Next:\n  1. "] {
                        #expect(outcome.output.contains(words), "\(words): \(outcome.output)")
                    }
                    #expect(!outcome.output.contains(missing), "\(outcome.output)")
                    try FileManager.default.removeItem(atPath: restored)
                }
                // A failure leaves neither the folder nor a changed file.
                let refused = try AnsweringSocket.run(
                    ["restore"] + arguments + ["--directory", restored, "--revoke-since", folder.path])
                #expect(refused.status == ExitStatus.notFound && FileStatus(of: restored) == nil, "\(refused.output)")
            }
        }
    }
#endif
