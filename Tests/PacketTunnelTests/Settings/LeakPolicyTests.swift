// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnel
import Testing

/// The truth table, written out: which phases let a packet leave outside of the tunnel, for each class and policy.
@Suite("Leak policies")
struct LeakPolicyTests {
    typealias Phase = LeakPolicy.Phase
    typealias TrafficClass = LeakPolicy.TrafficClass

    struct Row: Sendable {
        let traffic: TrafficClass
        let routeBased: Set<Phase>
        let enforcedRoutes: Set<Phase>
        let everything: Set<Phase>
    }

    static let always = Set(Phase.allCases)
    static let never: Set<Phase> = [.off]
    static let beforeUp: Set<Phase> = [.off, .connecting]
    static let unlessUp: Set<Phase> = [.off, .connecting, .blocked]

    static let table: [Row] = [
        Row(traffic: .tunnelTransport, routeBased: always, enforcedRoutes: always, everything: always),
        Row(traffic: .loopback, routeBased: always, enforcedRoutes: always, everything: always),
        Row(traffic: .linkConfiguration, routeBased: always, enforcedRoutes: always, everything: always),
        Row(traffic: .localNetwork, routeBased: always, enforcedRoutes: always, everything: always),
        Row(traffic: .allowedNetwork, routeBased: always, enforcedRoutes: always, everything: always),
        Row(traffic: .excluded, routeBased: always, enforcedRoutes: always, everything: never),
        Row(traffic: .unrouted, routeBased: always, enforcedRoutes: always, everything: never),
        Row(traffic: .included, routeBased: unlessUp, enforcedRoutes: beforeUp, everything: never),
        Row(traffic: .includedBoundElsewhere, routeBased: always, enforcedRoutes: beforeUp, everything: never),
        Row(traffic: .tunnelDNS, routeBased: unlessUp, enforcedRoutes: beforeUp, everything: never),
        Row(traffic: .otherDNS, routeBased: always, enforcedRoutes: always, everything: never),
    ]

    @Test("The table has every class of traffic")
    func complete() {
        #expect(Set(Self.table.map(\.traffic)) == Set(TrafficClass.allCases))
    }

    @Test("Leak policies permit the packets of the table, and no others", arguments: table)
    func truth(_ row: Row) {
        for phase in Phase.allCases {
            #expect(LeakPolicy.routeBased.allows(row.traffic, in: phase) == row.routeBased.contains(phase), "\(phase)")
            #expect(
                LeakPolicy.enforcedRoutes.allows(row.traffic, in: phase) == row.enforcedRoutes.contains(phase),
                "\(phase)")
            #expect(LeakPolicy.everything.allows(row.traffic, in: phase) == row.everything.contains(phase), "\(phase)")
        }
    }

    @Test("A stricter policy lets nothing out that a laxer one holds back", arguments: TrafficClass.allCases)
    func order(_ traffic: TrafficClass) {
        #expect(LeakPolicy.allCases.sorted() == [.routeBased, .enforcedRoutes, .everything])
        for (lax, strict) in [(LeakPolicy.routeBased, LeakPolicy.enforcedRoutes), (.enforcedRoutes, .everything)] {
            for phase in Phase.allCases where strict.allows(traffic, in: phase) {
                #expect(lax.allows(traffic, in: phase), "\(phase)")
            }
        }
    }

    /// Hosts ask these questions instead of comparing a policy with a case; a wrong answer leaks packets.
    @Test("Each answer of a policy agrees with the packets that it lets out", arguments: LeakPolicy.allCases)
    func answers(_ policy: LeakPolicy) {
        #expect(policy.blocksAfterFailure == !policy.allows(.included, in: .blocked))
        #expect(policy.leavesDecisionToRoutes == policy.allows(.includedBoundElsewhere, in: .up))
        #expect(policy.holdsBeforeSettings == !policy.allows(.included, in: .connecting))
        #expect(policy.routesEverything == !policy.allows(.unrouted, in: .up))
        #expect(policy.allowsExcludedRoutes == policy.allows(.excluded, in: .up))
        #expect(
            policy.refusesTunnelledOnly
                == (policy.allows(.unrouted, in: .up) && !policy.allows(.includedBoundElsewhere, in: .up)))
        #expect(policy.refusesAllLookups == !policy.allows(.otherDNS, in: .up))
    }

    @Test("Destinations are classed by the most specific route")
    func classes() throws {
        var settings = TunnelSettings.sample
        settings.includedRoutes = [.allIPv4, try IPPrefix("10.1.2.0/24")]
        settings.excludedRoutes = [try IPPrefix("10.1.0.0/16")]
        #expect(settings.trafficClass(of: .v4(8, 8, 8, 8)) == .included)
        #expect(settings.trafficClass(of: .v4(8, 8, 8, 8), isBoundElsewhere: true) == .includedBoundElsewhere)
        #expect(settings.trafficClass(of: .v4(10, 1, 9, 9)) == .excluded)
        #expect(settings.trafficClass(of: .v4(10, 1, 2, 9)) == .included)
        #expect(settings.trafficClass(of: .v6(1, 1)) == .unrouted)
        #expect(settings.trafficClass(of: .v4(127, 0, 0, 1)) == .loopback)
        #expect(settings.trafficClass(of: .v4(192, 168, 1, 7), onLink: true) == .included)
        settings.allowsLocalNetwork = true
        #expect(settings.trafficClass(of: .v4(192, 168, 1, 7), onLink: true) == .localNetwork)
    }

    @Test(
        "An allowed network is reached outside the tunnel under every policy",
        arguments: LeakPolicy.allCases)
    func allowedNetworks(_ policy: LeakPolicy) throws {
        var settings = TunnelSettings.sample
        settings.includedRoutes = [.allIPv4, .allIPv6]
        settings.leakPolicy = policy
        settings.allowedNetworks = [try IPPrefix("10.1.0.0/16"), try IPPrefix("fd00:7::/32")]
        #expect(settings.validate().isEmpty)
        for isBoundElsewhere in [false, true] {
            let inside = settings.trafficClass(of: .v4(10, 1, 2, 3), isBoundElsewhere: isBoundElsewhere)
            #expect(inside == .allowedNetwork)
            #expect(settings.trafficClass(of: try IPAddress("fd00:7::1")) == .allowedNetwork)
            for phase in LeakPolicy.Phase.allCases { #expect(policy.allows(inside, in: phase), "\(phase)") }
        }
        #expect(settings.trafficClass(of: .v4(10, 2, 0, 1)) == .included)
        #expect(settings.trafficClass(of: .v4(127, 0, 0, 1)) == .loopback)
    }

    @Test("Under 'everything' all destinations are included, with any routes")
    func everything() {
        var settings = TunnelSettings.sample
        settings.includedRoutes = []
        settings.leakPolicy = .everything
        #expect(settings.effectiveRoutes == [.allIPv4, .allIPv6])
        #expect(settings.trafficClass(of: .v4(8, 8, 8, 8)) == .included)
        #expect(settings.trafficClass(of: .v6(1, 1)) == .included)
    }

    @Test("Name lookups are split by the match domains")
    func lookups() {
        var settings = TunnelSettings.sample
        #expect(settings.trafficClass(ofLookup: "example.com") == .otherDNS)
        settings.dns = DNSSettings(servers: [.v4(10, 0, 0, 53)])
        #expect(settings.trafficClass(ofLookup: "example.com") == .tunnelDNS)
        settings.dns?.matchDomains = ["Corp.Example."]
        #expect(settings.trafficClass(ofLookup: "corp.example") == .tunnelDNS)
        #expect(settings.trafficClass(ofLookup: "WWW.CORP.EXAMPLE.") == .tunnelDNS)
        #expect(settings.trafficClass(ofLookup: "notcorp.example") == .otherDNS)
    }
}
