// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import Testing

@Suite("IP addresses and prefixes as values")
struct IPAddressTests {
    @Test("Addresses know their kind")
    func kinds() throws {
        #expect(try IPAddress("127.9.9.9").isLoopback)
        #expect(try IPAddress("::1").isLoopback)
        #expect(try IPAddress("239.1.1.1").isMulticast)
        #expect(try IPAddress("ff02::1").isMulticast)
        #expect(try IPAddress("169.254.7.7").isLinkLocal)
        #expect(try IPAddress("fe80::1").isLinkLocal)
        #expect(try IPAddress("febf::1").isLinkLocal)
        #expect(try IPAddress("fec0::1").isLinkLocal == false)
        #expect(IPAddress.v4(255, 255, 255, 255).isBroadcast)
        #expect(IPAddress.v6(0, 0).isUnspecified)
        // The same number in the other family has another meaning.
        #expect(IPAddress.v6(0, 0x7f00_0001).isLoopback == false)
        #expect(IPAddress.v6(0, 0xffff_ffff).isBroadcast == false)
        #expect(IPAddress.v6(0, 1) != .v4(1))
    }

    @Test("Four bytes or sixteen are an address", arguments: 0..<20)
    func bytes(count: Int) {
        #expect((IPAddress(bytes: [UInt8](repeating: 7, count: count)) != nil) == (count == 4 || count == 16))
    }

    @Test(
        "Prefixes read, mask and compare",
        arguments: [
            ("10.1.2.3/8", "10.1.2.3/8", "10.0.0.0/8", "255.0.0.0"),
            ("10.1.2.3", "10.1.2.3/32", "10.1.2.3/32", "255.255.255.255"),
            ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0", "0.0.0.0"),
            ("2001:db8::1/64", "2001:db8::1/64", "2001:db8::/64", "ffff:ffff:ffff:ffff::"),
            ("::1", "::1/128", "::1/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ])
    func prefixes(_ text: String, _ written: String, _ network: String, _ mask: String) throws {
        let prefix = try IPPrefix(text)
        let own = try InterfaceAddress(text)
        #expect(own.description == written)
        #expect(own.network == prefix)
        #expect(IPPrefix(own.address, length: own.prefixLength) == prefix)
        #expect(prefix.description == network)
        #expect(prefix.maskAddress.description == mask)
        #expect(prefix.contains(prefix.address))
        #expect(prefix.contains(own.address))
        #expect(prefix.contains(prefix))
    }

    @Test("A prefix has no more bits than its family, and no fewer than none")
    func lengths() {
        #expect(IPPrefix(.v4(0), length: 33) == nil)
        #expect(IPPrefix(.v6(0, 0), length: 129) == nil)
        #expect(IPPrefix(.v4(0), length: -1) == nil)
        #expect(IPPrefix(host: .v4(1)).length == 32)
        #expect(IPPrefix(host: .v6(0, 1)).length == 128)
    }

    @Test("A prefix does not contain the other family, nor a wider one")
    func containment() throws {
        let ten = try IPPrefix("10.0.0.0/8")
        #expect(!ten.contains(IPAddress.v6(0, 0x0a00_0001)))
        #expect(!ten.contains(IPPrefix.allIPv4))
        #expect(IPPrefix.allIPv4.contains(ten))
        #expect(!IPPrefix.allIPv6.contains(ten))
        #expect(!ten.contains(IPAddress.v4(11, 0, 0, 0)))
    }

    @Test("IP addresses and prefixes as values are coded as text, and a wrong text names its place")
    func coding() throws {
        let addresses = [try InterfaceAddress("10.0.0.1/24"), try InterfaceAddress("10.0.0.1 peer 10.0.0.2/31")]
        let bytes = try JSONEncoder().encode(addresses)
        #expect(try JSONDecoder().decode([String].self, from: bytes) == addresses.map(\.description))
        #expect(try JSONDecoder().decode([InterfaceAddress].self, from: bytes) == addresses)
        let prefixes = [try IPPrefix("10.0.0.0/24"), .allIPv6]
        let text = try JSONEncoder().encode(prefixes)
        #expect(try JSONDecoder().decode([String].self, from: text) == ["10.0.0.0/24", "::/0"])
        #expect(try JSONDecoder().decode([IPPrefix].self, from: text) == prefixes)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([IPPrefix].self, from: Data(#"["10.0.0.0/40"]"#.utf8))
        }
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([IPAddress].self, from: Data(#"["10.0.0"]"#.utf8))
        }
    }

    @Test("An endpoint as a value is coded as text, without the local end, and a wrong text is refused")
    func endpointCoding() throws {
        let scoped = Endpoint(address: try IPAddress("fe80::1"), port: 1, scopeID: 7)
        var endpoints = [try Endpoint("192.0.2.1:51820"), try Endpoint("[2001:db8::1]:4500"), scoped]
        endpoints[0].source = EndpointSource(interfaceIndex: 3, high: 0, low: 0x0a00_0001)
        let bytes = try JSONEncoder().encode(endpoints)
        let texts = ["192.0.2.1:51820", "[2001:db8::1]:4500", "[fe80::1%7]:1"]
        #expect(try JSONDecoder().decode([String].self, from: bytes) == texts)
        let decoded = try JSONDecoder().decode([Endpoint].self, from: bytes)
        #expect(decoded == endpoints)
        #expect(decoded[0].source == .unspecified)
        for text in ["192.0.2.1", "example.com:1", "192.0.2.1:65536", ""] {
            let data = try JSONEncoder().encode([text])
            #expect(throws: DecodingError.self) { try JSONDecoder().decode([Endpoint].self, from: data) }
        }
    }

    @Test("An interface's address with a peer is written and read")
    func peers() throws {
        let address = try #require(InterfaceAddress(.v4(10, 0, 0, 1), prefixLength: 32, peer: .v4(10, 0, 0, 2)))
        #expect(address.description == "10.0.0.1 peer 10.0.0.2/32")
        #expect(try InterfaceAddress("10.0.0.1 peer 10.0.0.2/32") == address)
        #expect(try InterfaceAddress("10.0.0.1 peer 10.0.0.2") == address)
        #expect(address.network.description == "10.0.0.2/32")
        #expect(InterfaceAddress(.v4(10, 0, 0, 1), prefixLength: 32, peer: .v6(0xfd00 << 48, 2)) == nil)
        #expect(throws: AddressTextError("an address and its peer must be of one family", at: 14)) {
            try InterfaceAddress("10.0.0.1 peer fd00::2")
        }
        for text in ["10.0.0.1/32 peer 10.0.0.2", "10.0.0.1 peer x", "10.0.0.1 peer ", "10.0.0.1 pee", "10.0.0.1 "] {
            #expect(throws: AddressTextError.self) { try InterfaceAddress(text) }
        }
        #expect(throws: AddressTextError.self) { try IPPrefix("10.0.0.1 peer 10.0.0.2/32") }
    }
}

@Suite("Endpoints as values")
struct EndpointTests {
    @Test("Equality leaves the local end out, and having the same ends does not")
    func sources() {
        let endpoint = Endpoint.loopback(port: 9)
        var other = endpoint
        other.source = EndpointSource(interfaceIndex: 1, high: 0, low: 7)
        #expect(other == endpoint && other.hashValue == endpoint.hashValue)
        #expect(!other.hasSameEnds(as: endpoint))
        #expect(other.hasSameEnds(as: other))
        var further = other
        further.source.low = 8
        #expect(!further.hasSameEnds(as: other))
        further = other
        further.scopeID = 3
        #expect(further != other && !further.hasSameEnds(as: other))
    }

    @Test("An endpoint takes at most 48 bytes, since each datagram has one")
    func size() {
        #expect(MemoryLayout<Endpoint>.stride == 48)
        #expect(MemoryLayout<IPAddress>.stride == 24)
    }
}
