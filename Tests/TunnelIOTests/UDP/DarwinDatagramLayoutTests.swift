// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

/// The data that Darwin's kernel writes and reads, with the numbers of its headers.
@Suite("Datagrams in Darwin's memory")
struct DarwinDatagramLayoutTests {
    /// A control message as the kernel makes it.
    private func message(level: UInt32, type: UInt32, _ payload: [UInt8]) -> [UInt8] {
        [UInt32(12 + payload.count), level, type].flatMap(bytes) + payload
    }

    private func bytes(_ word: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }

    private func word(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) } }

    private func source(_ control: [UInt8]) -> EndpointSource {
        var endpoint = Endpoint.loopback(port: 1)
        unsafe control.withUnsafeBytes { unsafe DarwinPacketInfo.read($0, into: &endpoint) }
        return endpoint.source
    }

    private func written(_ endpoint: Endpoint) -> [UInt8] {
        var control = [UInt8](repeating: 0xff, count: 32)
        let count = unsafe control.withUnsafeMutableBytes { buffer in
            unsafe buffer.baseAddress.map { unsafe DarwinPacketInfo.write(endpoint, to: $0) } ?? 0
        }
        return Array(control.prefix(count))
    }

    private func endpoint(_ address: UInt32, interface: UInt32, scope: UInt32 = 0) -> Endpoint {
        Endpoint(
            address: .v4(192, 0, 2, 1), port: 51820, scopeID: scope,
            source: EndpointSource(interfaceIndex: interface, high: 0, low: UInt64(address)))
    }

    @Test(
        "The local IPv4 address of a datagram is the one that it was sent to, which the kernel puts behind an empty one"
    )
    func receivedIPv4() {
        // in_pktinfo: ipi_ifindex, ipi_spec_dst, ipi_addr.
        let control = message(level: 0, type: 26, bytes(5) + [0, 0, 0, 0] + [10, 1, 2, 3])
        #expect(source(control) == EndpointSource(interfaceIndex: 5, high: 0, low: 0x0a01_0203))
    }

    @Test("The local IPv6 address and interface of a datagram are read, also behind another control message")
    func receivedIPv6() {
        let address: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]
        // A timestamp of three bytes, padded to four.
        let other = message(level: 0xffff, type: 2, [1, 2, 3]) + [0]
        let control = other + message(level: 41, type: 46, address + bytes(7))
        #expect(source(control) == EndpointSource(interfaceIndex: 7, high: 0x2001_0db8_0000_0000, low: 9))
    }

    @Test("A reply names the address that it leaves from and no interface, which the kernel would take instead")
    func replyIPv4() {
        let control = written(endpoint(0x0a01_0203, interface: 5))
        #expect(control == message(level: 0, type: 26, bytes(0) + [10, 1, 2, 3] + [0, 0, 0, 0]))
    }

    @Test(
        "A reply leaves from where its datagram arrived, by the kernel's rule that an interface goes before an address",
        arguments: [(UInt32(0x0a01_0203), UInt32(5)), (0xc000_0201, 0), (0, 5)])
    func replyLeavesFromThere(_ address: UInt32, _ interface: UInt32) {
        let control = written(endpoint(address, interface: interface))
        let chosen = word(control[12..<16])
        let named = word(control[16..<20]).byteSwapped
        if chosen != 0 {
            #expect(address == 0 && chosen == interface, "any address of the interface")
        } else {
            #expect(named == address)
        }
    }

    @Test("An IPv4 peer with a scope is sent to through that interface, with or without a source")
    func scope() {
        for control in [written(endpoint(0, interface: 0, scope: 9)), written(endpoint(1, interface: 5, scope: 9))] {
            #expect(word(control[12..<16]) == 9)
        }
    }

    @Test("A reply over IPv6 names address and interface, and nothing known is nothing said")
    func replyIPv6() {
        var remote = Endpoint(address: .v6(1, 2), port: 1)
        #expect(written(remote).isEmpty)
        remote.source = EndpointSource(interfaceIndex: 3, high: 0x2001_0db8_0000_0000, low: 9)
        let control = written(remote)
        #expect(source(control) == remote.source)
        #expect(control.prefix(12) == message(level: 41, type: 46, [UInt8](repeating: 0, count: 20)).prefix(12))
        #expect(written(Endpoint.loopback(port: 1)).isEmpty)
    }

    @Test("Control messages that are cut off or lie about their length are not read past their end")
    func malformed() {
        let whole = message(level: 0, type: 26, bytes(5) + [0, 0, 0, 0] + [10, 1, 2, 3])
        for length in 0..<whole.count { #expect(source(Array(whole.prefix(length))) == .unspecified) }
        for size in [UInt32(0), 11, 25, .max] {
            #expect(source(bytes(size) + whole.dropFirst(4)) == .unspecified)
        }
    }

    @Test(
        "A socket address begins with its length and Darwin's family, and is read back unchanged",
        arguments: [
            (Endpoint(address: .v4(192, 0, 2, 1), port: 51820), [UInt8(16), 2, 0xca, 0x6c]),
            (Endpoint(address: .v6(0xfe80 << 48, 1), port: 443, scopeID: 4), [28, 30, 0x01, 0xbb]),
        ])
    func socketAddress(_ endpoint: Endpoint, _ head: [UInt8]) {
        var name = [UInt8](repeating: 0xff, count: 28)
        let (length, read) = unsafe name.withUnsafeMutableBytes { buffer in
            unsafe buffer.baseAddress.map { start in
                (unsafe DarwinSocketAddress.write(endpoint, to: start), unsafe DarwinSocketAddress.read(start))
            } ?? (0, .unspecified)
        }
        #expect(length == Int(head[0]))
        #expect(Array(name.prefix(4)) == head)
        #expect(read == endpoint)
    }
}
