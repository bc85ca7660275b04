// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning

@Suite("Host names and patterns")
struct HostNameTests {
    @Test(
        "Host names and patterns have one canonical form",
        arguments: [
            ("Example.COM", "example.com"), ("example.com.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("my_host.example", "my_host.example"), ("localhost", "localhost"), ("192.0.2.1", "192.0.2.1"),
            ("2001:DB8::1", "2001:db8::1"), ("[2001:db8:0:0:0:0:0:1]", "2001:db8::1"), ("::", "::"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"), ("192.0.2.1.", "192.0.2.1"), ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("fe80::", "fe80::"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"), ("3com.example", "3com.example"),
        ])
    func normal(text: String, form: String) throws {
        #expect(try HostName(text).description == form)
        #expect(try HostName(HostName(text).description) == HostName(text))
    }

    @Test(
        "Text that is not a host name or pattern is refused",
        arguments: [
            "", ".", "..", "a..b", ".example.com", "example.com..", "-a.example", "a-.example", "ex ample.com",
            "bücher.example",
            "example.com:443", "https://example.com", "user@example.com", "example.com/", "*.example.com",
            "a*.example.com", "192.0.2",
            "192.0.2.256", "192.0.2.01", "1", "0x7f.0.0.1", "example.0x1", "example.0X", "127.1", "[example.com]",
            "[192.0.2.1]",
            "1::2::3",
            ":::", "fe80::1%eth0", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8", "12345::", "::g", ":1::2",
            "1::2:", "192.0.2.1::", "::192.0.2.1:1", "example.com\u{0}", String(repeating: "a", count: 64) + ".example",
            Array(repeating: "abcdefg", count: 32).joined(separator: "."),
        ])
    func refused(text: String) {
        #expect(throws: HostNameError.self) { try HostName(text) }
    }

    @Test("Host names and patterns match exactly, by wildcard for one label, or at any depth")
    func matching() throws {
        let exact = try HostPattern.exact("Example.com.")
        let wildcard = try HostPattern("*.Example.com")
        let subdomains = try HostPattern.includingSubdomains("example.com")
        let table: [(String, Bool, Bool, Bool)] = [
            ("example.com", true, false, true), ("EXAMPLE.COM.", true, false, true),
            ("a.example.com", false, true, true),
            ("a.b.example.com", false, false, true), ("badexample.com", false, false, false),
            ("example.com.evil.test", false, false, false), ("com", false, false, false),
            ("192.0.2.1", false, false, false),
        ]
        for (text, isExact, isWild, isBelow) in table {
            let host = try HostName(text)
            #expect(exact.matches(host) == isExact, "\(text)")
            #expect(wildcard.matches(host) == isWild, "\(text)")
            #expect(subdomains.matches(host) == isBelow, "\(text)")
        }
        #expect(try HostPattern.wildcard("example.com") == wildcard)
    }

    @Test(
        "Invalid wildcards, and wildcards of a top-level domain, are refused",
        arguments: ["*.com", "*.", "*", "*.*.example.com", "*.192.0.2.1", "*.[::1]", "a.*.example.com", "*.com.", "*."])
    func wildcards(text: String) {
        #expect(throws: HostNameError.self) { try HostPattern(text) }
    }

    @Test(
        "Patterns cannot include the subdomains of a single label or an address",
        arguments: ["com", "192.0.2.1", "::1"])
    func includedSubdomains(text: String) {
        #expect(throws: HostNameError.self) { try HostPattern.includingSubdomains(text) }
    }

    @Test("Patterns match addresses as exact hosts")
    func addresses() throws {
        let pattern = try HostPattern("[2001:db8::1]")
        #expect(try pattern.matches(HostName("2001:DB8:0::1")))
        #expect(try !pattern.matches(HostName("2001:db8::2")))
    }
}
