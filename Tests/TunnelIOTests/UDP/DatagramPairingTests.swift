// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("One port for both families")
struct DatagramPairingTests {
    /// A host that answers each request by rule and remembers it.
    private final class Host {
        var requests: [String] = []
        let internet = MemoryInternet()

        func bind(
            port: UInt16, rule: (_ isIPv6: Bool, _ port: UInt16, _ attempt: Int) -> Int32
        ) throws(TunnelIOError) -> DatagramSockets {
            let network = internet.attach([.v4(1), .v6(0, 1)])
            var attempt = 0
            let binding = DatagramBinding(port: port, mark: 7)
            return try DatagramPairing.bind(binding) { (isIPv6, binding) throws(TunnelIOError) in
                let port = binding.port
                #expect(binding.mark == 7)
                if !isIPv6 { attempt += 1 }
                requests.append("\(isIPv6 ? "v6" : "v4") \(port)")
                let code = rule(isIPv6, port, attempt)
                guard code == 0 else { throw TunnelIOError(.bind(port: port, operation: "bind"), errno: code) }
                let bound = port == 0 ? UInt16(5000 + attempt) : port
                return MemoryUDPSocket(
                    host: network, isIPv6: isIPv6, port: bound, mark: 0, signal: try WakeSignal())
            }
        }
    }

    @Test("IPv4 is bound first, then IPv6 on its port")
    func both() throws {
        let host = Host()
        let sockets = try host.bind(port: 0) { _, _, _ in 0 }
        #expect(host.requests == ["v4 0", "v6 5001"])
        #expect(sockets.port == 5001 && sockets.all.count == 2)
    }

    @Test("A host without IPv6 gets IPv4", arguments: [EAFNOSUPPORT, EADDRNOTAVAIL])
    func withoutIPv6(code: Int32) throws {
        let sockets = try Host().bind(port: 51_820) { isIPv6, _, _ in isIPv6 ? code : 0 }
        #expect(sockets.v6 == nil && sockets.v4?.port == 51_820 && sockets.port == 51_820)
    }

    @Test("A host without IPv4 gets IPv6 on the port asked for", arguments: [EAFNOSUPPORT, EADDRNOTAVAIL])
    func withoutIPv4(code: Int32) throws {
        let host = Host()
        let sockets = try host.bind(port: 51_820) { isIPv6, _, _ in isIPv6 ? 0 : code }
        #expect(host.requests == ["v4 51820", "v6 51820"])
        #expect(sockets.v4 == nil && sockets.v6?.port == 51_820 && sockets.port == 51_820)
    }

    @Test("A host with neither is an error")
    func neither() {
        #expect(throws: TunnelIOError.self) { try Host().bind(port: 1) { _, _, _ in EAFNOSUPPORT } }
    }

    @Test("A free port that is taken for IPv6 makes another be tried")
    func retries() throws {
        let host = Host()
        let sockets = try host.bind(port: 0) { isIPv6, _, attempt in isIPv6 && attempt < 4 ? EADDRINUSE : 0 }
        #expect(sockets.port == 5004)
        #expect(host.requests.count == 8)
    }

    @Test("The search for a pair of ports ends after 100 ports")
    func givesUp() {
        let host = Host()
        #expect(throws: TunnelIOError.self) {
            try host.bind(port: 0) { isIPv6, _, _ in isIPv6 ? EADDRINUSE : 0 }
        }
        #expect(host.requests.count == 200)
    }

    @Test("A fixed port is tried once")
    func fixedPort() {
        let host = Host()
        #expect(throws: TunnelIOError(.bind(port: 80, operation: "bind"), errno: EADDRINUSE)) {
            try host.bind(port: 80) { isIPv6, _, _ in isIPv6 ? EADDRINUSE : 0 }
        }
        #expect(host.requests == ["v4 80", "v6 80"])
    }

    @Test("Other errors are not taken for a missing family")
    func otherError() {
        #expect(throws: TunnelIOError(.bind(port: 80, operation: "bind"), errno: EACCES)) {
            try Host().bind(port: 80) { isIPv6, _, _ in isIPv6 ? EACCES : 0 }
        }
    }

    @Test(
        "A port that cannot be shared, or with too few sockets, has the pairs that could be bound, each complete",
        arguments: [(false, 1), (true, 1), (true, 2)])
    func fewerPairs(_ isIPv6Refused: Bool, _ pairs: Int) throws {
        let network = MemoryInternet().attach([.v4(1), .v6(0, 1)])
        var joined = 0
        let bound = try DatagramPairing.bind(DatagramBinding(port: 7), count: 16) {
            (isIPv6, binding, sharing) throws(TunnelIOError) in
            if sharing == .joining {
                if isIPv6 == isIPv6Refused, joined >= pairs - 1 {
                    throw TunnelIOError(.bind(port: 7, operation: "setting SO_REUSEPORT"), errno: ENOPROTOOPT)
                }
                if isIPv6 { joined += 1 }
            }
            return MemoryUDPSocket(host: network, isIPv6: isIPv6, port: 7, mark: 0, signal: try WakeSignal())
        }
        #expect(bound.count == pairs)
        #expect(bound.allSatisfy { $0.v4 != nil && $0.v6 != nil && $0.port == 7 })
        #expect(bound.last?.nextPairError?.errno == ENOPROTOOPT)
        #expect(bound.dropLast().allSatisfy { $0.nextPairError == nil })
    }
}
