// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnelLinux
import TunnelIO
import TunnelSystem

/// What ``ServerNetwork`` does, without its thread: for one thread at a time, in the network namespace that it was made in.
final class ServerNetworkCore {
    private let wanted: ServerNetworkSettings
    private let logger: Logger
    private let network: LinuxNetwork
    private var running: Running?
    private var clients = ServerClients()
    /// Which of the further tunnels clients are in.
    private var tunnels: [IPPrefix: String] = [:]
    /// Whether the interface was taken down since the rules could not be made again.
    private(set) var isHeld = false
    private(set) var repairs = NetworkRepairs()
    /// Whether the firewall's clients were changed here since they were last listed, and when that was.
    private var hasChangedClients = false
    private var nextListing = Int64.min

    /// What there is between start and stop.
    private struct Running {
        var ledger: ChangeLedger
        var device: LinuxTun
        /// The devices of the further tunnels.
        var further: [LinuxTun]
        var firewall: ServerFirewall
        /// All but the firewall and the routes to networks behind clients.
        var plan: [Change]
        var interface: InterfaceReference
        /// The further tunnels.
        var others: [String: InterfaceReference]
        /// What was loaded is in these, as nft lists it.
        var listed = Listed()
    }

    /// What nft made of what it was given.
    private struct Listed {
        /// The sets that do not change.
        var sets = TableContents()
        /// The chains for lists of rules, each with its lines.
        var chains: [String: [UInt8]] = [:]
    }

    init(_ settings: ServerNetworkSettings, logger: Logger) throws(LinuxNetworkError) {
        wanted = settings
        self.logger = logger
        network = try LinuxNetwork()
    }

    private var directory: JournalDirectory { JournalDirectory(path: wanted.journalFolder) }

    // MARK: - Start and end

    /// Makes the interface and what belongs to it: the rules first, then addresses, and forwarding last.
    /// - Returns: the devices, and the settings in force, which on a host without IPv6 have nothing of it.
    func start(isMultiQueue: Bool) throws(TunnelServerError) -> (LinuxTun, [LinuxTun], ServerNetworkSettings) {
        if let running { return (running.device, running.further, running.firewall.settings) }
        let (ledger, settings) = try Self.onHost { () throws(LinuxNetworkError) in
            let carriesIPv6 = try Self.hostHasIPv6()
            if !carriesIPv6, wanted.addresses.contains(where: \.isIPv6) {
                logger.warning("IPv6 is switched off on this host: clients get addresses of IPv4 only")
            }
            // What an earlier process has left is undone here, before anybody looks at what the host does by itself.
            let ledger = try ChangeLedger(name: wanted.name, directory: directory, system: network)
            return (ledger, carriesIPv6 ? wanted : wanted.withoutIPv6)
        }
        do throws(TunnelServerError) {
            let made = try make(settings, ledger, isMultiQueue: isMultiQueue)
            running = made
            return (made.device, made.further, settings)
        } catch {
            stop(ledger)
            throw error
        }
    }

    private func make(
        _ settings: ServerNetworkSettings, _ ledger: ChangeLedger, isMultiQueue: Bool
    ) throws(TunnelServerError) -> Running {
        let firewall = ServerFirewall(
            settings,
            forwardedForClients: try Self.onHost { () throws(LinuxNetworkError) in
                try Self.forwardedForClients(settings)
            })
        let rules = Change.firewall(firewall.table)
        try Self.onHost { () throws(LinuxNetworkError) in
            try ledger.apply([rules] + settings.tunnels.map { .interface(name: $0) })
        }
        let device: LinuxTun
        var further: [LinuxTun] = []
        do throws(TunnelIOError) {
            device = try LinuxTun(name: settings.name, mtu: settings.mtu, isMultiQueue: isMultiQueue)
        } catch {
            throw .interface(error)
        }
        do throws(TunnelIOError) {
            for name in settings.furtherTunnels {
                further.append(try LinuxTun(name: name, mtu: settings.mtu, isMultiQueue: isMultiQueue))
            }
        } catch {
            for device in [device] + further { device.close() }
            throw .interface(error)
        }
        do throws(TunnelServerError) {
            return try Self.onHost { () throws(LinuxNetworkError) in
                let (plan, interface, others) = try steps(settings)
                try ledger.apply([rules] + plan)
                var made = Running(
                    ledger: ledger, device: device, further: further, firewall: firewall, plan: plan,
                    interface: interface, others: others)
                try list(&made)
                return made
            }
        } catch {
            for device in [device] + further { device.close() }
            throw error
        }
    }

    private static func onHost<Result>(
        _ body: () throws(LinuxNetworkError) -> Result
    ) throws(TunnelServerError) -> Result {
        do throws(LinuxNetworkError) { return try body() } catch { throw .network(error) }
    }

    /// Undoes everything.
    func stop() {
        guard let running else { return }
        self.running = nil
        for device in [running.device] + running.further { device.close() }
        stop(running.ledger)
        clients = ServerClients()
        tunnels = [:]
        isHeld = false
    }

    private func stop(_ ledger: ChangeLedger) {
        do throws(LinuxNetworkError) { try ledger.undoAll() } catch { logger.error("\(error)") }
    }

    // MARK: - Steps

    private static let kernel = "/proc/sys/net"
    private static let forwarding4 = "\(kernel)/ipv4/ip_forward"
    private static let forwarding6 = "\(kernel)/ipv6/conf/all/forwarding"

    private static func hostHasIPv6() throws(LinuxNetworkError) -> Bool {
        for part in ["all", "default"] {
            guard try SmallFile.text("\(kernel)/ipv6/conf/\(part)/disable_ipv6") == "0" else { return false }
        }
        return true
    }

    /// The families that the host forwards nothing of, and the server will.
    private static func forwardedForClients(
        _ settings: ServerNetworkSettings
    ) throws(LinuxNetworkError) -> Set<ServerFirewall.Family> {
        var families: Set<ServerFirewall.Family> = []
        for isIPv6 in settings.addresses.map(\.isIPv6)
        where try SmallFile.text(isIPv6 ? forwarding6 : forwarding4) ?? "0" == "0" {
            families.insert(ServerFirewall.Family(isIPv6: isIPv6))
        }
        return families
    }

    /// All but the firewall, forwarding last.
    private func steps(
        _ settings: ServerNetworkSettings
    ) throws(LinuxNetworkError) -> ([Change], InterfaceReference, [String: InterfaceReference]) {
        let interface = try reference(settings.name)
        var others: [String: InterfaceReference] = [:]
        var steps: [Change] = [.interface(name: settings.name)]
        steps += settings.addresses.map { .address($0, interface) }
        steps.append(.link(interface, mtu: settings.mtu))
        for name in settings.furtherTunnels {
            let other = try reference(name)
            others[name] = other
            steps += [.interface(name: name), .link(other, mtu: settings.mtu)]
        }
        if settings.addresses.contains(where: { !$0.isIPv6 }) {
            steps.append(.setting(path: Self.forwarding4, value: "1"))
            // A new interface has what `default` says, whatever the others do.
            steps += settings.tunnels.map {
                .setting(path: "\(Self.kernel)/ipv4/conf/\($0)/forwarding", value: "1")
            }
        }
        if settings.addresses.contains(where: \.isIPv6) {
            // Whoever forwards takes no address and no route from routers, unless told to: the server would lose its own.
            for link in try network.netlink.links() where !link.isLoopback && !settings.tunnels.contains(link.name) {
                let path = "\(Self.kernel)/ipv6/conf/\(link.name)/accept_ra"
                if try SmallFile.text(path) == "1" { steps.append(.setting(path: path, value: "2")) }
            }
            steps.append(.setting(path: Self.forwarding6, value: "1"))
        }
        return (steps, interface, others)
    }

    private func reference(_ name: String) throws(LinuxNetworkError) -> InterfaceReference {
        guard let link = try network.netlink.link(named: name) else {
            throw LinuxNetworkError(.netlink(operation: "find interface '\(name)'"), errno: ENODEV)
        }
        return InterfaceReference(name: name, index: link.index)
    }

    // MARK: - Clients

    /// Lets clients in, takes others out and gives some other rules, all at once.
    /// - Parameters:
    ///   - changes: of each address, or network behind a client, its rules; nil for nobody's.
    ///   - tunnels: which of the further tunnels they are in; those that are not named are in the first.
    /// - Returns: why some networks cannot be behind a client; the rest was done.
    func change(
        _ changes: [IPPrefix: ClientRules?], tunnels places: [IPPrefix: String] = [:]
    ) throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        guard let running else { throw .notRunning }
        let (wanted, refused) = try Self.onHost { () throws(LinuxNetworkError) in try accepted(changes, running) }
        let before = routes(wanted.keys.filter { clients.entries[$0] != nil }, running)
        let change = clients.change(wanted, running.firewall)
        for (prefix, rules) in wanted { tunnels[prefix] = rules == nil ? nil : places[prefix] }
        let after = routes(wanted.keys.filter { clients.entries[$0] != nil }, running)
        let (going, coming) = (Set(before).subtracting(after), Set(after).subtracting(before))
        let commands = running.firewall.commands(for: change)
        guard !commands.isEmpty || !going.isEmpty || !coming.isEmpty else { return refused }
        hasChangedClients = true
        try Self.onHost { () throws(LinuxNetworkError) in
            try running.ledger.remove(Array(going))
            do throws(LinuxNetworkError) {
                // While nothing is forwarded, all is made together at the end of that.
                try load(isHeld ? [] : commands)
                if !isHeld, !change.newChains.isEmpty { try note(change.newChains) }
                for chain in change.unusedChains { self.running?.listed.chains[chain.name] = nil }
            } catch {
                // Others changed the map meanwhile.
                logger.warning("the firewall's clients are made anew: \(error)")
                try rebuild()
            }
            // Its packets are let in before they are led there.
            try running.ledger.add(Array(coming))
        }
        return refused
    }

    /// The changes without networks that cannot be behind a client, and why they cannot.
    private func accepted(
        _ changes: [IPPrefix: ClientRules?], _ running: Running
    ) throws(LinuxNetworkError) -> ([IPPrefix: ClientRules?], [IPPrefix: TunnelServerError]) {
        let firewall = running.firewall
        let asked = changes.filter { !firewall.isClient($0.key) && $0.value != nil && clients.entries[$0.key] == nil }
        guard !asked.isEmpty else { return (changes, [:]) }
        let goes = Set(changes.filter { $0.value == nil }.keys)
        var taken = clients.subnets(firewall).filter { !goes.contains($0) }
        let own = try network.netlink.addresses().map(\.address.address)
        var (accepted, refused): ([IPPrefix: ClientRules?], [IPPrefix: TunnelServerError]) = (changes, [:])
        for prefix in asked.keys.sorted(by: { $0.length < $1.length }) {
            let reason: String? =
                if prefix.length == 0 || !firewall.settings.addresses.contains(where: { $0.isIPv6 == prefix.isIPv6 }) {
                    "it is a default route, or of a family that the tunnel has not"
                } else if let other = firewall.settings.networks.first(where: { $0.overlaps(prefix) }) {
                    "\(other) is the clients' own"
                } else if let address = own.first(where: prefix.contains) {
                    "the server has the address \(address) in it"
                } else if let other = taken.first(where: { $0.overlaps(prefix) }) {
                    "\(other) is behind another client"
                } else {
                    nil
                }
            if let reason {
                accepted[prefix] = nil
                refused[prefix] = .subnet(prefix, reason)
            } else {
                taken.append(prefix)
            }
        }
        return (accepted, refused)
    }

    /// The routes that lead to these: to networks behind clients, and to clients in further tunnels.
    private func routes(_ prefixes: [IPPrefix], _ running: Running) -> [Change] {
        prefixes.compactMap { prefix in
            let other = tunnels[prefix].flatMap { running.others[$0] }
            guard other != nil || !running.firewall.isClient(prefix) else { return nil }
            return .route(Route(to: prefix, interface: (other ?? running.interface).index))
        }
    }

    private func load(_ commands: [String]) throws(LinuxNetworkError) {
        guard !commands.isEmpty else { return }
        try SystemProgram.required("nft").check(["-j", "-f", "-"], input: NFT.script(commands))
    }

    /// Loads the whole table again, and then all clients: rules that let nobody in are there sooner than those with many, and nft
    /// takes networks for those of the table before where both come at once.
    private func rebuild() throws(LinuxNetworkError) {
        guard var running else { return }
        try running.ledger.restore([.firewall(running.firewall.table)])
        try load(running.firewall.add(clients))
        try list(&running)
        self.running?.listed = running.listed
    }

    /// Notes what nft has made of the table, right after it was loaded.
    private func list(_ running: inout Running) throws(LinuxNetworkError) {
        let name = running.firewall.tableName
        running.listed.sets = try presentContents(name).only(running.firewall.fixedSets)
        running.listed.chains = [:]
        self.running?.listed = running.listed
        if !clients.chains.isEmpty { running.listed.chains = try whole(clients.chains, name) }
    }

    /// The same for chains that came later.
    private func note(_ chains: [RuleChain]) throws(LinuxNetworkError) {
        guard let running else { return }
        let found = try whole(chains, running.firewall.tableName)
        self.running?.listed.chains.merge(found) { $1 }
    }

    /// As many chains as are listed one by one.
    private static let fewChains = 4

    /// What nft lists of some chains.
    /// - Throws: where others have changed them already.
    private func whole(_ chains: [RuleChain], _ table: String) throws(LinuxNetworkError) -> [String: [UInt8]] {
        let all = chains.count > Self.fewChains ? try network.present(table).listing : nil
        var found: [String: [UInt8]] = [:]
        for chain in chains {
            let listing = if let all { all } else { try network.presentChain(chain.name, of: table) }
            guard let lines = listing.owned[chain.name], listing.ruleCount(chain.name) == chain.rules.count else {
                throw LinuxNetworkError(
                    .netlink(operation: "keep chain \(chain.name) of table \(table)"), errno: EBUSY)
            }
            found[chain.name] = lines
        }
        return found
    }

    // MARK: - What others change

    /// Compares the network with what it should be, and makes it so again.
    /// - Returns: in how many nanoseconds it is to be tried again, where not all is as it should be, or was looked at. Where
    ///   something could not be made again, nothing is forwarded.
    func look(at parts: NetworkWatch.Parts, culprit: String?) -> Int64? {
        guard let running else { return nil }
        do throws(LinuxNetworkError) {
            var isComplete = true
            if parts.contains(.firewall) || isHeld {
                isComplete = try lookAtFirewall(running, culprit.map { " (by \($0))" } ?? "")
                if isHeld { logger.notice("the firewall is there again, and packets are forwarded") }
            }
            if parts.contains(.routing) || isHeld {
                // Without its interface there is nothing to route; who has the descriptor hears of that.
                if try isThere(running) {
                    let plan =
                        running.plan + routes(clients.subnets(running.firewall) + Array(tunnels.keys), running)
                    let undone = try running.ledger.undone(of: plan)
                    try running.ledger.restore(undone)
                    if !isHeld { note(undone.map(\.summary), "") }
                }
            }
            isHeld = false
            return isComplete ? nil : LaneClock.nanosecondsPerSecond
        } catch {
            // Said once: it is tried again each second.
            if !isHeld {
                logger.error("what others have undone of the server's network could not be made again: \(error)")
            }
            hold(running)
            return LaneClock.nanosecondsPerSecond
        }
    }

    private func isThere(_ running: Running) throws(LinuxNetworkError) -> Bool {
        for name in running.firewall.settings.tunnels {
            guard try network.netlink.link(named: name) != nil else { return false }
        }
        return true
    }

    /// The least time between two lists of the clients that no other gave reason for: there may be many.
    private static let listingInterval: Int64 = 5 * LaneClock.nanosecondsPerSecond
    /// How many times as long as a list takes there is none.
    private static let listingRest: Int64 = 50

    private func lookAtFirewall(_ running: Running, _ origin: String) throws(LinuxNetworkError) -> Bool {
        let (firewall, name) = (running.firewall, running.firewall.tableName)
        // The rules are compared without what is in maps, which changes all the time.
        let present = try network.present(name)
        guard present.isFixed, present.listing.owned == running.listed.chains else {
            try rebuild()
            note(["firewall table \(name)"], origin)
            return true
        }
        let began = LaneClock.now()
        if hasChangedClients, began < nextListing { return false }
        let contents = try presentContents(name)
        let ended = LaneClock.now()
        hasChangedClients = false
        nextListing = ended + max(Self.listingInterval, Self.listingRest * (ended - began))
        guard contents != firewall.contents(clients, fixed: running.listed.sets) else { return true }
        if contents.only(firewall.fixedSets) == running.listed.sets {
            try load(firewall.replace(clients))
        } else {
            try rebuild()
        }
        note(["clients of firewall table \(name)"], origin)
        return true
    }

    /// The most that nft says of a client, in all maps.
    private static let listedClient = 512

    private func presentContents(_ table: String) throws(LinuxNetworkError) -> TableContents {
        TableContents(
            listing: try SystemProgram.required("nft").check(
                ["--stateless", "list", "table", "inet", table],
                outputLimit: (clients.entries.count + clients.chains.count * 8 + 4096) * Self.listedClient))
    }

    private func note(_ undone: [String], _ origin: String) {
        guard !undone.isEmpty else { return }
        let text = undone.joined(separator: ", ") + origin
        repairs.note(text)
        logger.warning("others have undone this of the server's network, and it was made again: \(text)")
    }

    /// Takes the interface down, so that nothing of the server's own is reached, and forwards no more than the host did before:
    /// without rules it would forward for everybody.
    private func hold(_ running: Running) {
        guard !isHeld else { return }
        isHeld = true
        do throws(LinuxNetworkError) {
            try running.ledger.suspend(
                running.plan.filter { step in
                    guard case .setting(let path, _) = step else { return false }
                    return path == Self.forwarding4 || path == Self.forwarding6
                })
        } catch {
            logger.error("\(error)")
        }
        // Each by itself: one that is gone keeps no other up.
        for device in [running.device] + running.further {
            do throws(TunnelIOError) { try device.setUp(false) } catch { logger.error("\(error)") }
        }
        logger.error("nothing is forwarded until the firewall is there again")
    }
}
