// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("TunBuilder")
struct TunBuilderTests {
    @Test("Everything that is wrong is said at once")
    func problems() throws {
        var builder = TunBuilder(name: "a/b")
        builder.mtu = 1000
        builder.txQueueLength = -1
        builder.owner = .max
        builder.group = .max
        builder.addresses = [
            TunAddress(.v4(1), prefixLength: 33), TunAddress(.v6(1, 2), prefixLength: 64, peer: .v4(1)),
            TunAddress(.v4(2), prefixLength: 8), TunAddress(.v4(2), prefixLength: 8),
        ]
        let error = #expect(throws: TunnelIOError.self) { try builder.validate() }
        guard case .invalidOptions(let problems) = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(problems.count == 8)
        let text = "\(try #require(error))"
        for part in ["'a/b'", "1000", "-1", "0.0.0.1", "two families", "0.0.0.2/8 is given twice", "owner", "group"] {
            #expect(text.contains(part), "\(part) is not in: \(text)")
        }
        #expect(TunBuilder().problems.isEmpty)
    }

    @Test(
        "A name may be a template with one number",
        arguments: [
            ("tun%d", true), ("%d", true), ("wg0", true), ("a%db", true), ("twelve-char%d", true),
            ("fourteen-char%d", true),
            ("sixteen-letters%d", false), ("%s", false), ("%", false), ("%d%d", false), ("", false), ("a b%d", false),
            ("a%", false), ("..", false),
        ])
    func templates(_ name: String, _ isFine: Bool) {
        #expect(InterfaceName.isTemplate(name) == isFine)
        #expect(TunBuilder(name: name).problems.isEmpty == isFine)
    }

    @Test(
        "Addresses are read and written",
        arguments: [
            ("10.0.0.1/24", "10.0.0.1/24"), ("10.0.0.1", "10.0.0.1/32"), ("fd00::1/64", "fd00::1/64"),
            ("fd00:0:0::1", "fd00::1/128"), ("0.0.0.0/0", "0.0.0.0/0"), ("::/0", "::/0"),
        ])
    func addresses(_ text: String, _ written: String) throws {
        let address = try #require(TunAddress(text))
        #expect(address.description == written)
        #expect(TunAddress(written) == address)
        #expect(unsafe address.host.bytes.withUnsafeBytes { unsafe TunAddress.Host(bytes: $0) } == address.host)
    }

    @Test(
        "What is no address is refused",
        arguments: [
            "", "10.0.0/24", "10.0.0.1/33", "fd00::1/129", "10.0.0.1/-1", "10.0.0.1/+4", "10.0.0.1/", "x/8", "/8",
            "10.0.0.1/24/1", "10.0.0.1/99999999999999999999",
        ])
    func notAddresses(_ text: String) {
        #expect(TunAddress(text) == nil)
    }

    @Test("An address with another end says so")
    func peers() {
        #expect(TunAddress("10.0.0.1/32", peer: "10.0.0.2")?.description == "10.0.0.1 peer 10.0.0.2/32")
        #expect(TunAddress("10.0.0.1/32", peer: "fd00::2") == nil)
        #expect(TunAddress("10.0.0.1/32", peer: "x") == nil)
        #expect(TunAddress.Host("fe80::1")?.isLinkLocal == true)
        #expect(TunAddress.Host("febf::1")?.isLinkLocal == true)
        #expect(TunAddress.Host("fec0::1")?.isLinkLocal == false)
        #expect(TunAddress.Host("169.254.0.1")?.isLinkLocal == false)
    }
}
