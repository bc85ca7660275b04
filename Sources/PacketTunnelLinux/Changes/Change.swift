// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel

/// An interface that this process created, by its name and its index, because names are reused.
package struct InterfaceReference: Hashable, Sendable, Codable {
    package var name: String
    package var index: UInt32

    package init(name: String, index: UInt32) {
        self.name = name
        self.index = index
    }
}

/// A change of the host's network that a tunnel makes. A plan is a list of wanted changes; a journal lists the changes
/// that were made.
package enum Change: Hashable, Sendable, Codable {
    /// A TUN interface of this name. The process that holds its descriptor creates it; the kernel deletes it with the
    /// descriptor.
    case interface(name: String)
    /// An address of the interface.
    case address(InterfaceAddress, InterfaceReference)
    /// The interface brought up with this MTU in bytes.
    case link(InterfaceReference, mtu: Int)
    /// A route, which replaces one with the same destination, table and metric.
    case route(Route)
    /// A policy rule.
    case rule(PolicyRule)
    /// A kernel setting: a file under /proc/sys and its text.
    case setting(path: String, value: String)
    /// An nftables table, which replaces one of the same name. A journal contains only its name.
    case firewall(FirewallTable)
    /// The tunnel's name servers.
    case resolver(ResolverPlan)
    /// The number of the routing table and the packet mark that only this tunnel uses. By itself it changes nothing.
    case number(UInt32)
}

/// The state that undoing a change restores.
package enum PreviousState: Hashable, Sendable, Codable {
    /// Nothing: the change added something, and undoing removes it.
    case nothing
    /// The route that the tunnel's route replaced.
    case route(ForeignRoute)
    /// The text of the kernel setting.
    case setting(String)
    /// The text of a setting that makes the host forward packets (``HostForwarding``), and the highest index of an interface at that
    /// time. The setting is not restored if a later interface needs it.
    case forwarding(before: String, newestInterface: UInt32)
    /// The information that the manager of name servers needs to remove the tunnel's servers.
    case resolver(ResolverRecord)

    /// The state to restore while another tunnel has made the same change, or `nil` if there is nothing to undo then.
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
    /// Whether this process made the change successfully. Changes of an earlier process, and changes that failed, do
    /// not count.
    var isMade = false

    init(id: Int, _ change: Change, _ previous: PreviousState) {
        (self.id, self.change, self.previous) = (id, change, previous)
    }

    private enum CodingKeys: String, CodingKey { case id, change, previous }

    /// The slot of the change. Of an earlier process's changes, only a firewall has a slot.
    var slot: Change.Slot? { isMade || change.isFirewall ? change.slot : nil }

    /// The change and the previous state, as text for users.
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
    /// A part of the network that a tunnel has only once: a new change replaces the previous one.
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

    /// The change, as text for users.
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

    /// The number that only this tunnel uses; `nil` for other changes.
    var number: UInt32? { if case .number(let number) = self { number } else { nil } }

    /// The file of the kernel setting; `nil` for other changes.
    package var settingPath: String? { if case .setting(let path, _) = self { path } else { nil } }

    var isFirewall: Bool { if case .firewall = self { true } else { false } }

    var isLink: Bool { if case .link = self { true } else { false } }

    var isRoute: Bool { if case .route = self { true } else { false } }

    var isRule: Bool { rule != nil }

    /// The policy rule; `nil` if the change is not one.
    var rule: PolicyRule? { if case .rule(let rule) = self { rule } else { nil } }

    var isResolver: Bool { if case .resolver = self { true } else { false } }

    /// Whether the change stays in effect when the kernel ends without undoing it: managers of name servers write files.
    /// Everything else is the kernel's own state, such as routes, tables and the settings under /proc/sys.
    var outlivesKernel: Bool { isResolver }

    /// Whether several tunnels share this change. Then the last tunnel undoes it.
    func isShared(with other: Change) -> Bool {
        switch (self, other) {
        case (.setting, .setting): self == other
        case (.resolver(let mine), .resolver(let theirs)): mine.manager == theirs.manager
        default: false
        }
    }

    /// Whether a journal may contain the change. Undoing a setting writes its file, so the file must be a kernel
    /// setting.
    var isTrusted: Bool {
        guard case .setting(let path, _) = self else { return true }
        return path.hasPrefix("/proc/sys/")
            && !path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().contains { name in
                name.isEmpty || name == "." || name == ".."
            }
    }
}

/// The host's network, in which a tunnel makes and undoes its changes.
package protocol NetworkSystem: AnyObject {
    /// Returns the state before each change, in their order. It is `nil` for a change that is already in effect, which
    /// needs neither making nor undoing. The kernel's lists are read once for all changes.
    func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?]
    /// Makes a change.
    /// - Parameter previous: the state before it.
    func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError)
    /// Undoes a change. Undoing is idempotent, and does not change a part that another program has changed since.
    func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError)
    /// Returns the changes that are not in effect, in their order. Interfaces and name servers always count as in
    /// effect.
    func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change]
    /// Returns the changes that a killed server of this name has left and that the kernel shows, each with the state
    /// before it, in the order in which they were made. They are needed because the journal may have been deleted.
    func remains(of name: String) -> [(Change, PreviousState)]
    /// Whether a running server other than this one needs a change, as the kernel shows it. The other server undoes it then.
    func isNeeded(_ change: Change, byOthersThan name: String) -> Bool
}

extension NetworkSystem {
    package func remains(of _: String) -> [(Change, PreviousState)] { [] }
    package func isNeeded(_: Change, byOthersThan _: String) -> Bool { false }
}
