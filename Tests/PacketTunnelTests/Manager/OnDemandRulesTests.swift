// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Testing

@Suite("On-demand rules")
struct OnDemandRulesTests {
    typealias Rule = OnDemandRules.Rule
    typealias Action = OnDemandRules.Action

    static func path(
        _ kind: NetworkPath.InterfaceKind?, ssid: String? = nil, status: NetworkPath.Status = .satisfied
    ) -> NetworkPath {
        NetworkPath(status: status, interfaces: kind.map { [.init(name: "if0", kind: $0)] } ?? [], ssid: ssid)
    }

    /// Paths: Wi-Fi "home", Wi-Fi "cafe", Wi-Fi without a name, mobile, cable, another kind, none known.
    static let paths = [
        path(.wifi, ssid: "home"), path(.wifi, ssid: "cafe"), path(.wifi), path(.cellular), path(.ethernet),
        path(.other),
        path(nil),
    ]

    @Test(
        "On-demand rules decide by the first rule that matches",
        arguments: [
            // c(onnect) d(isconnect) i(gnore), one for each path
            (OnDemandRules(), "iiiiiii"),
            (.always, "ccccccc"),
            (.wifiOnly(), "cccdddd"),
            (.wifiOnly(ssids: ["home"]), "cdddddd"),
            (.except(ssids: ["home"]), "dcccccc"),
            (.except(ssids: []), "ccccccc"),
            (OnDemandRules([Rule(.connect, on: .cellular)]), "iiiciii"),
            (OnDemandRules([Rule(.connect, on: .ethernet), Rule(.disconnect, on: .cellular)]), "iiidcii"),
            (OnDemandRules([Rule(.ignore, on: .wifi, ssids: ["cafe", "home"]), Rule(.connect)]), "iiccccc"),
            // Names narrow "any" down to Wi-Fi.
            (OnDemandRules([Rule(.connect, ssids: ["home"]), Rule(.disconnect)]), "cdddddd"),
            (OnDemandRules([Rule(.connect, on: .wifi, ssids: ["Home"])]), "iiiiiii"),
        ])
    func decisions(_ rules: OnDemandRules, _ expected: String) {
        let letters: [Action: Character] = [.connect: "c", .disconnect: "d", .ignore: "i"]
        #expect(String(Self.paths.compactMap { letters[rules.decision(for: $0)] }) == expected)
    }

    @Test("On-demand rules decide nothing without a network, and as usual for one that use brings up")
    func noNetwork() {
        #expect(OnDemandRules.always.decision(for: .unsatisfied) == .ignore)
        #expect(OnDemandRules.wifiOnly().decision(for: Self.path(.cellular, status: .unsatisfied)) == .ignore)
        #expect(OnDemandRules.always.decision(for: Self.path(.cellular, status: .requiresConnection)) == .connect)
    }

    @Test("The preferred interface counts, not the others")
    func preferred() {
        let path = NetworkPath(interfaces: [.init(name: "a", kind: .ethernet), .init(name: "b", kind: .wifi)])
        #expect(OnDemandRules.wifiOnly().decision(for: path) == .disconnect)
    }

    @Test("Names that look the same are not, byte by byte")
    func spelling() {
        let rules = OnDemandRules.wifiOnly(ssids: ["caf\u{e9}"])
        #expect(rules.decision(for: Self.path(.wifi, ssid: "caf\u{e9}")) == .connect)
        #expect(rules.decision(for: Self.path(.wifi, ssid: "cafe\u{301}")) == .disconnect)
    }

    @Test("On-demand rules report names that cannot be")
    func validation() {
        #expect(OnDemandRules.wifiOnly(ssids: ["home"]).validate().isEmpty)
        let rules = OnDemandRules([
            Rule(.connect, on: .cellular, ssids: ["home"]),
            Rule(.connect, on: .wifi, ssids: ["", String(repeating: "a", count: 33), "ok"]),
        ])
        #expect(
            rules.validate().map(\.field) == [
                "onDemand.rules[0].ssids", "onDemand.rules[1].ssids[0]", "onDemand.rules[1].ssids[1]",
            ])
    }

    @Test("On-demand rules survive coding")
    func coding() throws {
        let rules = OnDemandRules.except(ssids: ["home"])
        #expect(try JSONDecoder().decode(OnDemandRules.self, from: JSONEncoder().encode(rules)) == rules)
    }
}
