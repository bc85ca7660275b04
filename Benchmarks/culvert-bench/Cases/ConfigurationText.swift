// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// UAPI requests with as many allowed IPs as have been seen in use, and wg-quick files.
enum ConfigurationText {
    static func suites(isQuick: Bool) -> [Suite] {
        let networks = isQuick ? 13_000 : 130_000
        return [
            Suite(
                name: "UAPI, \(networks) allowed IPs of one peer", prepare: { _ in try uapi(networks) },
                maximumRuns: 5),
            Suite(name: "wg-quick text, 1000 peers") { _ in try wgQuick() },
        ]
    }

    private static func uapi(_ count: Int) throws -> [Case] {
        var random = SeededGenerator(seed: 5)
        guard let key = PublicKey(bytes: random.bytes(32)) else { throw BenchmarkError("no key") }
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(PrivateKey(using: &random))
        update.replacePeers = true
        var peer = UAPIPeerUpdate(publicKey: key)
        peer.replaceAllowedIPs = true
        var seen: Set<IPPrefix> = []
        while seen.count < count {
            let address = IPAddress.v4(UInt32(truncatingIfNeeded: random.next()))
            if let prefix = IPPrefix(address, length: random.int(in: 16...32)), seen.insert(prefix).inserted {
                peer.allowedIPs.append(.add(prefix))
            }
        }
        update.peers = [peer]
        var request: [UInt8] = []
        update.appendRequest(to: &request)
        let now = Instant(nanoseconds: 1)
        let wall = WallTime(seconds: 1)

        func parse() -> UAPIDeviceUpdate? {
            var parser = UAPIRequestParser()
            parser.feed(request)
            guard case .success(.set(let update))? = parser.next() else { return nil }
            return update
        }
        guard parse() == update else { throw BenchmarkError("the request is not understood") }
        let holder = Holder()
        holder.engine.apply(update, at: now, wall: wall)
        return [
            Case(name: "set: parse", unit: .milliseconds) { duration in
                timed(duration, count: 1) { keep(parse()?.peers.count ?? 0) } / 1e6
            },
            Case(name: "set: apply to an engine without it", unit: .milliseconds) { duration in
                timedInside(duration, count: 1) {
                    let fresh = Holder()
                    return elapsed { fresh.engine.apply(update, at: now, wall: wall) }
                } / 1e6
            },
            Case(name: "get: state and text", unit: .milliseconds) { duration in
                timed(duration, count: 1) {
                    var reply: [UInt8] = []
                    holder.engine.uapiState.appendReply(to: &reply)
                    keep(reply.count)
                } / 1e6
            },
        ]
    }

    private final class Holder {
        var engine = Engine(random: SeededGenerator(seed: 3))
    }

    private static func wgQuick() throws -> [Case] {
        var random = SeededGenerator(seed: 6)
        var configuration = TunnelConfiguration(
            interface: InterfaceConfiguration(privateKey: PrivateKey(using: &random)))
        for number in 0..<1000 {
            guard let key = PublicKey(bytes: random.bytes(32)),
                let v4 = IPPrefix(.v4(0x0a00_0000 + UInt32(number)), length: 32),
                let v6 = IPPrefix(.v6(0xfd00 << 48, UInt64(number)), length: 128)
            else { continue }
            configuration.peers.append(
                PeerConfiguration(
                    publicKey: key, presharedKey: PresharedKey(using: &random), allowedIPs: [v4, v6],
                    endpoint: try EndpointAddress(host: "peer\(number).example.com", port: 51_820),
                    persistentKeepalive: 25))
        }
        let original = configuration
        let text = Array(try original.wgQuickText().utf8)
        guard try TunnelConfiguration.parse(text) == original else { throw BenchmarkError("the text changes it") }
        return [
            Case(name: "parse, \(text.count / 1000) kB", unit: .megabytesPerSecond) { duration in
                Double(text.count) * 1e3
                    / timed(duration, count: 1) { keep((try? TunnelConfiguration.parse(text))?.peers.count ?? 0) }
            },
            Case(name: "write", unit: .megabytesPerSecond) { duration in
                Double(text.count) * 1e3
                    / timed(duration, count: 1) { keep((try? original.wgQuickText())?.utf8.count ?? 0) }
            },
        ]
    }
}
