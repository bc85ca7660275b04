// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel

/// An interface that this process made, by its name and, since names are used again, its number.
package struct InterfaceReference: Hashable, Sendable, Codable {
    package var name: String
    package var index: UInt32

    package init(name: String, index: UInt32) {
        self.name = name
        self.index = index
    }
}

/// A change of the host's network that a tunnel makes. A plan is a list of changes; a journal lists those that were made.
package enum Change: Hashable, Sendable, Codable {
    /// A TUN interface of this name. The process that has its descriptor makes it; it is deleted with the descriptor.
    case interface(name: String)
    /// An address of the interface.
    case address(InterfaceAddress, InterfaceReference)
    /// The interface up, with this MTU in bytes.
    case link(InterfaceReference, mtu: Int)
    /// A route, in place of one with the same destination, table and metric.
    case route(Route)
    /// A policy rule.
    case rule(PolicyRule)
    /// A kernel setting: a file under /proc/sys and its text.
    case setting(path: String, value: String)
    /// A table of nftables, in place of one of that name. A journal has only its name.
    case firewall(FirewallTable)
    /// The tunnel's name servers.
    case resolver(ResolverPlan)
    /// The number of a routing table, and mark of packets, that this tunnel alone uses. It changes nothing by itself.
    case number(UInt32)
}

/// The state that undoing a change restores.
package enum PreviousState: Hashable, Sendable, Codable {
    /// The change added something: undoing it removes that.
    case nothing
    /// The route that the tunnel's route replaced.
    case route(ForeignRoute)
    /// The text of the kernel setting.
    case setting(String)
    /// The text of a setting that makes the host forward packets (``HostForwarding``), and the highest index of an interface at that
    /// time. The setting is not restored if a later interface needs it.
    case forwarding(before: String, newestInterface: UInt32)
    /// The facts that the manager of name servers needs to forget the tunnel's.
    case resolver(ResolverRecord)

    /// The state to restore while another tunnel has made the same change too, or `nil` if there is nothing to undo.
    var whileShared: PreviousState? {
        switch self {
        case .nothing, .route: return self
        case .setting, .forwarding: return nil
        case .resolver(var record):
            (record.before, record.replaced) = (nil, nil)
            return .resolver(record)
        }
    }

    /// The state to restore even if an interface needs the change.
    package var unconditional: PreviousState {
        if case .forwarding(let before, _) = self { .setting(before) } else { self }
    }
}

/// A change in a journal.
package struct ChangeEntry: Hashable, Sendable, Codable {
    /// The number of the entry in its journal.
    package let id: Int
    package var change: Change
    package var previous: PreviousState
    /// Whether this process made the change. An earlier process's changes, and one whose making failed, are not taken for made.
    var isMade = false

    init(id: Int, _ change: Change, _ previous: PreviousState) {
        (self.id, self.change, self.previous) = (id, change, previous)
    }

    private enum CodingKeys: String, CodingKey { case id, change, previous }

    /// The slot of the change. An earlier process's change has one only if it is a firewall.
    var slot: Change.Slot? { isMade || change.isFirewall ? change.slot : nil }

    /// The change and the state before it, for people.
    package var summary: String {
        switch (change, previous) {
        case (.route, .route): "\(change.summary), in place of another"
        case (.setting(let path, let value), .setting(let before)),
            (.setting(let path, let value), .forwarding(let before, _)):
            "\(path) from \(before) to \(value)"
        default: change.summary
        }
    }
}

extension Change {
    /// A part of the network of which a tunnel has one: a new change takes the place of the old one.
    enum Slot: Hashable {
        case firewall(String)
        case resolver
        case link(InterfaceReference)
    }

    var slot: Slot? {
        switch self {
        case .firewall(let table): .firewall(table.name)
        case .resolver: .resolver
        case .link(let interface, _): .link(interface)
        default: nil
        }
    }

    /// The change, for people.
    package var summary: String {
        switch self {
        case .interface(let name): "interface \(name)"
        case .address(let address, let interface): "address \(address) of \(interface.name)"
        case .link(let interface, _): "interface \(interface.name) up"
        case .route(let route): "\(route)"
        case .rule(let rule): "\(rule)"
        case .setting(let path, let value): "\(path) as \(value)"
        case .firewall(let table): "firewall table \(table.name)"
        case .resolver(let plan): "name servers through \(plan.manager.rawValue)"
        case .number(let number): "the number \(number)"
        }
    }

    /// The number that the tunnel alone uses.
    var number: UInt32? { if case .number(let number) = self { number } else { nil } }

    var isFirewall: Bool { if case .firewall = self { true } else { false } }

    var isLink: Bool { if case .link = self { true } else { false } }

    var isRoute: Bool { if case .route = self { true } else { false } }

    var isRule: Bool { rule != nil }

    /// The policy rule; `nil` if the change is not one.
    var rule: PolicyRule? { if case .rule(let rule) = self { rule } else { nil } }

    var isResolver: Bool { if case .resolver = self { true } else { false } }

    /// Whether several tunnels make this change together, so that the last one undoes it.
    func isShared(with other: Change) -> Bool {
        switch (self, other) {
        case (.setting, .setting): self == other
        case (.resolver(let mine), .resolver(let theirs)): mine.manager == theirs.manager
        default: false
        }
    }

    /// Whether a journal may name the change. Undoing a setting writes its file, so the file must be a kernel setting.
    var isTrusted: Bool {
        guard case .setting(let path, _) = self else { return true }
        return path.hasPrefix("/proc/sys/")
            && !path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().contains { name in
                name.isEmpty || name == "." || name == ".."
            }
    }
}

/// The host's network, in which changes are made and undone.
package protocol NetworkSystem: AnyObject {
    /// Returns the state before each change, in their order; `nil` for a change that is in effect already, so that nothing has to be
    /// made or undone. The kernel's lists are read once for all changes.
    func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?]
    /// Makes a change.
    /// - Parameter previous: the state before it.
    func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError)
    /// Undoes a change. Undoing is idempotent, and leaves alone a part that another program has changed since.
    func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError)
    /// Returns the changes that are not in effect, in their order. An interface and name servers are never among them.
    func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change]
}
