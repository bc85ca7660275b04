// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("TunBuilder")
struct TunBuilderTests {
    @Test("All problems are reported together")
    func problems() throws {
        var builder = TunBuilder(name: "a/b")
        builder.mtu = 1000
        builder.txQueueLength = -1
        builder.owner = .max
        builder.group = .max
        builder.addresses = try [
            InterfaceAddress("fd00::1/64"), InterfaceAddress("0.0.0.2/8"), InterfaceAddress("0.0.0.2/8"),
        ]
        let error = #expect(throws: TunnelIOError.self) { try builder.validate() }
        guard case .invalidOptions(let problems) = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(problems.count == 6)
        let text = "\(try #require(error))"
        for part in ["'a/b'", "1000", "-1", "0.0.0.2/8 is given twice", "owner", "group"] {
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
}
