// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

/// With any bytes, nothing traps and every error is inside the text.
@Suite("Truncated and mutated texts")
struct ConfigurationMutationTests {
    private static let pieces: [[UInt8]] =
        [
            "[Peer]", "[Interface]", "\n", "\r", "#", "=", ",", " ", "/", ":", "[", "]", "%", "-", "+", "::",
            "AllowedIPs = ", "\u{feff}",
            "PrivateKey", "DNS=", "99999999999999999999", "é", "set=1\n", "get=1\n\n", "\n\n", "public_key=",
            "allowed_ip=",
        ].map { Array($0.utf8) } + [[0], [0xff], [0xe2, 0x82], [0xf0, 0x9f]]

    private static func mutate(_ text: [UInt8], _ generator: inout SplitMix64) -> [UInt8] {
        var text = text
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let index = Int.random(in: 0...text.count, using: &generator)
            switch Int.random(in: 0..<5, using: &generator) {
            case 0 where index < text.count: text[index] = UInt8.random(in: 0...255, using: &generator)
            case 1 where index < text.count: text[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 2: text.insert(contentsOf: pieces.randomElement(using: &generator) ?? [], at: index)
            case 3: text.removeSubrange(index..<min(text.count, index + Int.random(in: 0...20, using: &generator)))
            default:
                let end = min(text.count, index + Int.random(in: 0...60, using: &generator))
                text.insert(contentsOf: Array(text[index..<end]), at: Int.random(in: 0...text.count, using: &generator))
            }
        }
        return text
    }

    /// Whether line and column of every error and warning lie in the text.
    private static func isInside(_ report: ConfigurationReport, _ text: [UInt8]) -> Bool {
        let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return (report.errors + report.warnings).allSatisfy { error in
            (1...lines.count).contains(error.line) && (1...(lines[error.line - 1].count + 1)).contains(error.column)
        }
    }

    private static func holds(_ text: [UInt8]) -> Bool {
        let report = TunnelConfiguration.check(text)
        guard isInside(report, text), (report.configuration == nil) == !report.errors.isEmpty else { return false }
        guard let configuration = report.configuration else { return true }
        // Accepted text can be written, and is then parsed to the same value.
        guard let written = try? configuration.wgQuickText() else { return false }
        return (try? TunnelConfiguration.parse(written)) == configuration
    }

    @Test("Every truncation of a file is read or is an error")
    func truncatedFile() {
        let text = Array(Sample.wholeFile.utf8)
        for length in 0...text.count {
            #expect(ConfigurationMutationTests.holds(Array(text.prefix(length))), "length \(length)")
        }
    }

    @Test("A file with any single byte replaced by one that matters is read or is an error")
    func replacedBytes() {
        let text = Array(Sample.peer("Endpoint = [fe80::1%a]:5", "AllowedIPs = +10.0.0.0/8").utf8)
        for index in text.indices {
            for byte in [0, 9, 10, 13, 32, 35, 37, 44, 45, 47, 48, 58, 61, 91, 93, 127, 128, 255] as [UInt8] {
                var changed = text
                changed[index] = byte
                #expect(ConfigurationMutationTests.holds(changed), "byte \(index) is \(byte)")
            }
        }
    }

    @Test("Mutated files are read or are errors", arguments: 0..<8)
    func mutatedFile(seed: Int) {
        var generator = SplitMix64(seed: UInt64(seed))
        let text = Array(Sample.wholeFile.utf8)
        for round in 0..<400 {
            let mutated = ConfigurationMutationTests.mutate(text, &generator)
            #expect(ConfigurationMutationTests.holds(mutated), "seed \(seed), round \(round)")
        }
    }

    @Test("Random bytes are neither a file nor a request", arguments: 0..<4)
    func noise(seed: Int) {
        var generator = SplitMix64(seed: UInt64(seed) &+ 100)
        for _ in 0..<500 {
            let text = (0..<Int.random(in: 0...200, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            #expect(ConfigurationMutationTests.holds(text))
            #expect(uapiResults(text, size: 1) == uapiResults(text))
            #expect((try? UAPIDeviceState(reply: text)) == nil)
        }
    }

    @Test("Every truncation of a set request is a failure, or ends at a line's end")
    func truncatedRequest() {
        let text = Array(Sample.setRequest.utf8)
        for length in 1..<text.count {
            let part = Array(text.prefix(length))
            let found = uapiResults(part)
            #expect(found.count == 1)
            switch found.first {
            case .success: #expect(part.last == UInt8(ascii: "\n"))
            case .failure(let error):
                #expect((1...part.split(separator: UInt8(ascii: "\n")).count).contains(error.line))
            case nil: Issue.record("no result at length \(length)")
            }
            #expect(uapiResults(part, size: 1) == found)
        }
    }

    @Test("Mutated requests give the same in pieces and whole", arguments: 0..<8)
    func mutatedRequest(seed: Int) {
        var generator = SplitMix64(seed: UInt64(seed) &+ 200)
        let text = Array((Sample.setRequest + "get=1\n\n" + Sample.setRequest).utf8)
        for round in 0..<200 {
            let mutated = ConfigurationMutationTests.mutate(text, &generator)
            let whole = uapiResults(mutated)
            let lines = mutated.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).count
            #expect(
                uapiResults(mutated, size: Int.random(in: 1...9, using: &generator)) == whole,
                "seed \(seed), round \(round)")
            for case .failure(let error) in whole { #expect((1...lines).contains(error.line)) }
            for case .success(.set(let update)) in whole {
                var written: [UInt8] = []
                update.appendRequest(to: &written)
                #expect(uapiResults(written) == [.success(.set(update))])
            }
        }
    }

    @Test("Mutated replies are read or are errors")
    func mutatedReply() {
        var generator = SplitMix64(seed: 300)
        var state = UAPIDeviceState()
        state.privateKey = Sample.privateKey(1)
        var peer = UAPIPeerState(publicKey: Sample.publicKey(3))
        peer.lastHandshake = UAPITimestamp(seconds: 1, nanoseconds: 2)
        state.peers = [peer]
        var text: [UInt8] = []
        state.appendReply(to: &text)
        for _ in 0..<2000 {
            guard let read = try? UAPIDeviceState(reply: ConfigurationMutationTests.mutate(text, &generator)) else {
                continue
            }
            var written: [UInt8] = []
            read.appendReply(to: &written)
            #expect((try? UAPIDeviceState(reply: written)) == read)
        }
    }

    @Test(
        "Mutated addresses, prefixes and endpoints give an offset inside the text or read back the same",
        arguments: ["10.20.30.40/24", "2001:db8::ffff:1.2.3.4/64", "[fe80::1%7]:51820", "vpn.example.com:51820"])
    func mutatedAddresses(sample: String) {
        var generator = SplitMix64(seed: 400)
        for _ in 0..<2000 {
            let text = String(
                decoding: ConfigurationMutationTests.mutate(Array(sample.utf8), &generator), as: UTF8.self)
            let length = text.utf8.count
            do throws(AddressTextError) {
                let prefix = try IPPrefix(text)
                #expect((try? IPPrefix(prefix.description)) == prefix)
            } catch {
                #expect((0...length).contains(error.offset), "\(text)")
            }
            do throws(AddressTextError) {
                let endpoint = try EndpointAddress(text)
                #expect((try? EndpointAddress(endpoint.description)) == endpoint)
            } catch {
                #expect((0...length).contains(error.offset), "\(text)")
            }
        }
    }
}
