// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@Suite("IP addresses, prefixes and endpoints as text")
struct IPAddressTextTests {
    @Test(
        "An address prints in its canonical form (RFC 5952)",
        arguments: [
            ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"), ("10.0.0.1", "10.0.0.1"),
            ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("2001:0DB8:0000:0000:0000:0000:0000:0001", "2001:db8::1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"), ("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"), ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
            ("1:0:0:4:5:6:0:0", "1::4:5:6:0:0"), ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("::FFFF:102:304", "::ffff:1.2.3.4"), ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"), ("fe80::A", "fe80::a"),
            ("0:0:0:0:0:0:0:0", "::"), ("10.1.2.3", "10.1.2.3"), ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"), ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ])
    func canonical(text: String, canonical: String) throws {
        let address = try IPAddress(text)
        #expect(address.description == canonical)
        #expect(try IPAddress(canonical) == address)
        #expect(IPAddress(bytes: address.bytes) == address)
    }

    @Test(
        "A text that is not an address is refused, with the position of the error",
        arguments: [
            ("", 0), ("1", 1), ("1.2.3", 5), ("1.2.3.4.5", 7), ("1.2.3.", 6), (".1.2.3", 0), ("1..2.3", 2),
            ("256.1.1.1", 0), ("1.2.3.999", 6), ("1.2.3.1000", 6), ("01.2.3.4", 0), ("1.2.3.00", 6), ("0x1.2.3.4", 1),
            ("1.2.3.4 ", 7), (" 1.2.3.4", 0), ("+1.2.3.4", 0), ("1.2.3.-4", 6), ("1.2.3.4/32", 7), ("localhost", 0),
            (":", 0), (":::", 2), ("1::2::3", 4), ("1:2:3:4:5:6:7", 13), ("1:2:3:4:5:6:7:8:9", 16), ("1:", 2),
            (":1", 0),
            ("12345::", 0), ("::g", 2), ("1:2:3:4:5:6:7:8::", 15), ("1:2:3:4::5:6:7:8", 15), ("fe80::1%eth0", 7),
            ("::%1", 2), ("::1.2.3", 7), ("::1.2.3.4.5", 9), ("::1.2.3.4:1", 9), ("1:2:3:4:5:6:7:1.2.3.4", 14),
            ("::1/64", 3),
            ("[::1]", 0), ("::01.2.3.4", 2), ("１.2.3.4", 0), ("::1:", 4), ("10", 2), ("10.1", 4), ("010.0.0.1", 0),
            ("1:2:3:4:5:6:7::8:9", 15), (":1:2:3:4:5:6:7", 0), ("1:2:3:4:5:6:7:", 14), ("1.2.3.4::", 7),
        ])
    func malformed(text: String, offset: Int) {
        let error = #expect(throws: AddressTextError.self) { try IPAddress(text) }
        #expect(error?.offset == offset)
        #expect(error?.reason.isEmpty == false)
    }

    @Test("Every IPv6 address of few set groups prints and reads back the same")
    func roundTrip() throws {
        var generator = SeededGenerator(seed: 5952)
        for pattern in 0..<256 {
            var groups = [UInt64](repeating: 0, count: 8)
            for bit in 0..<8 where pattern >> bit & 1 == 1 { groups[bit] = generator.next() & 0xffff | 1 }
            let high = groups[0] << 48 | groups[1] << 32 | groups[2] << 16 | groups[3]
            let low = groups[4] << 48 | groups[5] << 32 | groups[6] << 16 | groups[7]
            let address = IPAddress.v6(high, low)
            #expect(try IPAddress(address.description) == address)
        }
    }

    @Test(
        "A prefix drops host bits and defaults to the whole address",
        arguments: [
            ("10.1.2.3/8", "10.0.0.0/8"), ("10.1.2.3", "10.1.2.3/32"), ("::1", "::1/128"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("0.0.0.0/0", "0.0.0.0/0"), ("255.255.255.255/31", "255.255.255.254/31"),
            ("::ffff:1.2.3.4/120", "::ffff:1.2.3.0/120"),
            ("fd00::ffff/65", "fd00::/65"), ("10.1.2.3/0", "0.0.0.0/0"),
        ])
    func prefix(text: String, canonical: String) throws {
        #expect(try IPPrefix(text).description == canonical)
    }

    @Test(
        "A prefix length that is missing, out of range or no number is an error, never clamped",
        arguments: [
            ("10.0.0.0/", 9), ("10.0.0.0/33", 9), ("10.0.0.0/200", 9), ("10.0.0.0/256", 9), ("::/129", 3), ("::/", 3),
            ("10.0.0.0/+8", 9), ("10.0.0.0/-1", 9), ("10.0.0.0/255.0.0.0", 12), ("10.0.0.0/8/8", 10), ("/8", 0),
            ("10.0.0.0/99999999999999999999999", 9), ("10.0.0/8", 6), ("1.2.3.4/008", 8), ("10.0.0.0/08", 9),
            ("::/00", 3),
            ("", 0), ("fd00::1/129", 8), ("x/8", 0),
        ])
    func prefixLength(text: String, offset: Int) {
        let error = #expect(throws: AddressTextError.self) { try IPPrefix(text) }
        #expect(error?.offset == offset)
        #expect(throws: AddressTextError.self) { try InterfaceAddress(text) }
    }

    @Test("An interface's address keeps its host bits")
    func interfaceAddress() throws {
        let address = try InterfaceAddress("10.0.0.2/24")
        #expect(address.description == "10.0.0.2/24")
        #expect(address.network == (try IPPrefix("10.0.0.0/24")))
        #expect(try InterfaceAddress("fd00::2").prefixLength == 128)
        #expect(InterfaceAddress(try IPAddress("1.2.3.4"), prefixLength: 33) == nil)
    }

    @Test(
        "An endpoint prints as it reads",
        arguments: ["1.2.3.4:51820", "[2001:db8::1]:0", "[fe80::1%7]:65535", "[::ffff:1.2.3.4]:1"])
    func endpoint(text: String) throws {
        #expect(try Endpoint(text).description == text)
    }

    @Test("A numeric zone becomes the scope, and a name only where it can be resolved")
    func zone() throws {
        #expect(try Endpoint("[fe80::1%7]:1").scopeID == 7)
        #expect(throws: AddressTextError.self) { try Endpoint("[fe80::1%eth0]:1") }
        let bytes = Array("[fe80::1%eth0]:1".utf8)
        #expect(try Endpoint(utf8: bytes[bytes.indices].span, resolveZone: { $0 == "eth0" ? 4 : nil }).scopeID == 4)
    }

    @Test(
        "A text that is not an endpoint is refused",
        arguments: [
            "", ":", "1.2.3.4", "1.2.3.4:", ":51820", "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:+1", "1.2.3.4:http",
            "::1:51820",
            "2001:db8::1", "[::1]", "[::1]:", "[::1]51820", "[::1", "[]:1", "[1.2.3.4]:1", "[::1]:1:1", "[fe80::1%]:1",
            "[fe80::1%4294967296]:1", "1.2.3.4:1 ", "[::1] :1", "1.2.3:4",
        ])
    func malformedEndpoint(text: String) {
        let error = #expect(throws: AddressTextError.self) { try Endpoint(text) }
        #expect((0...text.utf8.count).contains(error?.offset ?? -1))
    }
}
