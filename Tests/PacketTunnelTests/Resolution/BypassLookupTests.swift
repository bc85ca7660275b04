// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("Names, asked for past the tunnel", .timeLimit(.minutes(3)))
struct BypassLookupTests {
    static let server = IPAddress.v4(198, 51, 100, 53)
    static let second = IPAddress.v4(198, 51, 100, 54)
    static let name = "vpn.example"
    static let answer: [IPAddress] = [.v4(203, 0, 113, 7), .v6(0x2001_0db8 << 32, 7)]

    let internet = MemoryInternet()
    let client: MemoryDatagramNetwork

    init() { client = internet.attach([.v4(0xc000_020a)]) }

    private func names(at address: UInt32 = 0xc633_6435, _ table: [String: [IPAddress]]) throws -> NameServer {
        try NameServer(on: internet.attach([.v4(address)]), table)
    }

    private func lookUp(
        _ servers: [IPAddress], name: String = name, patience: Int64 = 60_000_000_000
    ) async throws(TunnelError) -> [IPAddress] {
        let lookup = BypassLookup(
            name: name, bypass: TunnelBypass(network: client, mark: 0, servers: servers), patience: patience)
        let (stream, continuation) = AsyncStream.makeStream(of: Result<[IPAddress], TunnelError>.self)
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "lookup") {
                do throws(TunnelError) {
                    continuation.yield(.success(try lookup.run()))
                } catch {
                    continuation.yield(.failure(error))
                }
            }
        } catch {
            Issue.record(error)
        }
        for await result in stream { return try result.get() }
        return []
    }

    @Test("Both families are queried, and IPv4 comes first")
    func both() async throws {
        let names = try names([Self.name: Array(Self.answer.reversed())])
        #expect(try await lookUp([Self.server]) == Self.answer)
        #expect(Set(names.questions.map(\.isIPv6)) == [false, true])
        #expect(Set(names.questions.map(\.name)) == [Self.name])
        await names.close()
    }

    @Test("An alias and letters of another case are as good")
    func oneFamily() async throws {
        let names = try names(["VPN.example": [.v4(203, 0, 113, 7)]])
        #expect(try await lookUp([Self.server], name: "VPN.example") == [.v4(203, 0, 113, 7)])
        await names.close()
    }

    @Test("After a silent or failing server the next one is queried", arguments: [true, false])
    func nextServer(_ isSilent: Bool) async throws {
        let (first, second) = (try names([:]), try names(at: 0xc633_6436, [Self.name: Self.answer]))
        first.isSilent = isSilent
        first.code = 2
        let patience: Int64 = isSilent ? 50_000_000 : 60_000_000_000
        #expect(try await lookUp([Self.server, Self.second], patience: patience) == Self.answer)
        #expect(!first.questions.isEmpty)
        await first.close()
        await second.close()
    }

    @Test("No such name, no address, no answer and an invalid name have distinct errors")
    func failures() async throws {
        let names = try names(["empty.example": []])
        func message(_ name: String, _ servers: [IPAddress] = [Self.server]) async -> String {
            let error = await #expect(throws: TunnelError.self) {
                _ = try await lookUp(servers, name: name, patience: 20_000_000)
            }
            #expect(error?.code == .nameResolutionFailed)
            return error?.message ?? ""
        }
        #expect(await message("none.example").contains("no such name"))
        #expect(await message("empty.example").contains("empty"))
        #expect(await message("not a..name" + String(repeating: "x", count: 64)).contains("not a host name"))
        #expect(await message(Self.name, []).contains("no name server"))
        #expect(await message(Self.name, [Self.second]).contains("no answer from 198.51.100.54"))
        names.code = 5
        #expect(await message(Self.name).contains("code 5"))
        await names.close()
    }

    @Test("The machine's own table of names comes first: names and aliases, both families, no comments")
    func hosts() {
        let text =
            "127.0.0.1 localhost\n# 192.0.2.1 vpn.example\n 192.0.2.2\tother VPN.Example # home\n::2 vpn.example\nx vpn.example\n"
        #expect(HostsFile.addresses(of: Self.name, in: text) == [.v4(192, 0, 2, 2), .v6(0, 2)])
        #expect(HostsFile.addresses(of: "vpn", in: text).isEmpty)
    }
}

@Suite("Messages of name servers")
struct DNSMessageTests {
    private func question(_ name: String = "vpn.example") throws -> DNSMessage {
        var random = SeededGenerator(seed: 3)
        return try #require(DNSMessage(name: name, wantsIPv6: false, using: &random))
    }

    /// Puts an answer behind a query: an alias, a record of another kind, and the address.
    private func answer(_ query: [UInt8], code: UInt8 = 0) -> [UInt8] {
        var message = query
        message.replaceSubrange(2..<4, with: [0x81, 0x80 | code])
        message[7] = 3
        message += [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 12]
        message += [0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 1, 9]
        return message + [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 9]
    }

    @Test("An answer counts for its own question only")
    func matching() throws {
        let question = try question()
        let good = answer(question.query)
        #expect(question.answer(in: good) == .addresses([.v4(192, 0, 2, 9)]))
        #expect(question.answer(in: answer(question.query, code: 3)) == .noSuchName)
        #expect(question.answer(in: answer(question.query, code: 2)) == .refused(code: 2))
        #expect(question.answer(in: question.query) == nil, "a question")
        for index in [0, 1, 5, 13, 25, 27] {
            var other = good
            other[index] ^= 1
            #expect(question.answer(in: other) == nil, "byte \(index)")
        }
        var otherCase = good
        otherCase[13] ^= 0x20
        #expect(question.answer(in: otherCase) != nil)
    }

    @Test("Answers that end anywhere, or lie about lengths, trap nowhere and give no other address")
    func damage() throws {
        let question = try question()
        let good = answer(question.query)
        for count in 0..<good.count { _ = question.answer(in: Array(good.prefix(count))) }
        var random = SeededGenerator(seed: 4)
        for _ in 0..<5000 {
            var damaged = good
            damaged[random.int(in: 2..<good.count)] = UInt8(random.int(in: 0...255))
            if case .addresses(let found)? = question.answer(in: damaged) { #expect(found.count <= 3) }
        }
    }

    @Test("An invalid host name is not queried")
    func names() {
        var random = SeededGenerator(seed: 3)
        for name in ["", ".", String(repeating: "a", count: 64), String(repeating: "a.", count: 127)] {
            #expect(DNSMessage(name: name, wantsIPv6: true, using: &random) == nil, "\(name)")
        }
    }
}
