// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

/// A separate folder for journals, deleted with this object.
final class JournalFolder {
    let directory: JournalDirectory

    init() throws {
        // In memory, as /run is: each entry is synchronized.
        directory = JournalDirectory(path: "/dev/shm/culvert-\(UUID().uuidString)")
    }

    deinit {
        try? FileManager.default.removeItem(atPath: directory.path)
    }

    func bytes(_ name: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(fileURLWithPath: "\(directory.path)/\(name).journal")))
    }

    func write(_ bytes: [UInt8], _ name: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: "\(directory.path)/\(name).journal"))
    }

    var files: [String] { (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [] }
}

/// Values for tests of the Linux host.
enum LinuxSamples {
    static let interface = InterfaceReference(name: "cvt0", index: 7)

    /// A process that ended.
    static let dead = JournalOwner(processID: 1, startTime: .max)

    static func dns() throws -> DNSSettings {
        DNSSettings(servers: [try IPAddress("10.9.0.1")], searchDomains: ["example.org"])
    }

    static let setting = "/proc/sys/net/ipv4/conf/all/src_valid_mark"

    static let table = FirewallTable(name: "culvert_cvt0", body: "  chain guard { drop }\n")

    /// One step of each kind, in the order of a start.
    static func plan() throws -> [Change] {
        [
            .interface(name: "cvt0"),
            .firewall(table),
            .address(try InterfaceAddress("10.9.0.2/24"), interface),
            .address(try InterfaceAddress("fd00::2/64"), interface),
            .link(interface, mtu: 1420),
            .setting(path: setting, value: "1"),
            .route(Route(to: .allIPv4, interface: 7, table: 51_820)),
            .route(Route(to: try IPPrefix("192.168.0.0/16"), kind: .throw, table: 51_820)),
            .route(Route(to: .allIPv6, interface: 7, table: 51_820)),
            .rule(PolicyRule(isIPv6: false, priority: 32_764, table: 51_820, mark: 51_820, isInverted: true)),
            .rule(PolicyRule(isIPv6: false, priority: 32_763, table: 254, suppressedPrefixLength: 0)),
            .route(Route(to: try IPPrefix("10.55.0.0/16"), interface: 7)),
            .resolver(ResolverPlan(interface: interface, manager: .resolved, settings: try dns())),
        ]
    }

    /// A network with a route in the way of one of the plan's.
    static func network() throws -> FakeNetwork.State {
        var state = FakeNetwork.State()
        state.settings[setting] = "0"
        state.rules = [PolicyRule(isIPv6: false, priority: 32_766, table: 254)]
        let route = Route(to: try IPPrefix("10.55.0.0/16"), interface: 2)
        state.routes[FakeNetwork.RouteKey(route)] = .foreign(ForeignRoute(body: [2, 16, 0, 0, 254, 3, 253, 1]))
        return state
    }
}
