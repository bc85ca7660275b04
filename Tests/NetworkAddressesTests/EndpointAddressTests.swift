// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@Suite("Endpoints with a host that may be a name")
struct EndpointAddressTests {
    @Test("A zone may be a name, which must be resolved, or a number")
    func zone() throws {
        #expect(try EndpointAddress("[fe80::1%eth0]:1").host == "fe80::1%eth0")
        #expect(try EndpointAddress("[fe80::1%eth0]:1").endpoint == nil)
        #expect(try EndpointAddress("[fe80::1%7]:1").endpoint?.scopeID == 7)
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
        #expect(throws: AddressTextError.self) { try EndpointAddress(text) }
    }

    @Test(
        "A host name follows RFC 1123",
        arguments: [
            ("vpn.example.com:51820", true), ("localhost:1", true), ("a_b.example:1", true),
            ("xn--bcher-kva.example:1", true),
            ("example.com.:1", true), ("3com.com:1", true), ("1.2.3.4.example:1", true), ("-a.example:1", false),
            ("a-.example:1", false), ("a..b:1", false), (".a:1", false), ("bücher.example:1", false), ("a b:1", false),
            ("1.2.3:1", false), ("8.8:53", false), ("256.1.1.1:1", false), ("a.0:1", false), ("host:0", false),
            ("a/b:1", false),
            (String(repeating: "a", count: 63) + ":1", true), (String(repeating: "a", count: 64) + ":1", false),
            (String(repeating: "abcdefg.", count: 31) + "abcde:1", true),
            (String(repeating: "abcdefg.", count: 31) + "abcdef:1", false), (".:1", false), ("a.1.:1", false),
        ])
    func hostName(text: String, isValid: Bool) throws {
        if isValid {
            #expect(try EndpointAddress(text).description == text)
        } else {
            #expect(throws: AddressTextError.self) { try EndpointAddress(text) }
        }
    }

    @Test(
        "An endpoint made from a host cannot smuggle anything else in",
        arguments: ["a\nPostUp = x", "::1]:5 [", "a:1", "", "a#b"])
    func hostSmuggling(host: String) {
        #expect(throws: AddressTextError.self) { try EndpointAddress(host: host, port: 1) }
    }
}
