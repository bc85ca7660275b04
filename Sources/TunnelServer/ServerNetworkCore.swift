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
    /// Of each client's address the chain that its packets go to.
    private var clients: [IPAddress: String] = [:]
    /// Whether the interface was taken down since the rules could not be made again.
    private(set) var isHeld = false
    private(set) var repairs = NetworkRepairs()
    /// Whether the firewall's clients were changed here since they were last listed, and when that was.
    private var hasChangedClients = false
    private var lastListing = Int64.min / 2

    /// What there is between start and stop.
    private struct Running {
        var ledger: ChangeLedger
        var device: LinuxTun
        var firewall: ServerFirewall
        /// All but the firewall.
        var plan: [NetworkStep]
    }

    init(_ settings: ServerNetworkSettings, logger: Logger) throws(LinuxNetworkError) {
        wanted = settings
        self.logger = logger
        network = try LinuxNetwork()
    }

    private var directory: JournalDirectory { JournalDirectory(path: wanted.journalFolder) }

    // MARK: - Start and end

    /// Makes the interface and what belongs to it: the rules first, then addresses, and forwarding last.
    /// - Returns: the device, and the settings in force, which on a host without IPv6 have nothing of it.
    func start(isMultiQueue: Bool) throws(TunnelServerError) -> (LinuxTun, ServerNetworkSettings) {
        if let running { return (running.device, running.firewall.settings) }
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
            return (made.device, settings)
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
        let rules = NetworkStep.firewall(firewall.table(clients: clients))
        try Self.onHost { () throws(LinuxNetworkError) in
            try ledger.apply([rules, .interface(name: settings.name)])
        }
        let device: LinuxTun
        do throws(TunnelIOError) {
            device = try LinuxTun(name: settings.name, mtu: settings.mtu, isMultiQueue: isMultiQueue)
        } catch {
            throw .interface(error)
        }
        do throws(TunnelServerError) {
            return try Self.onHost { () throws(LinuxNetworkError) in
                let plan = try steps(settings)
                try ledger.apply([rules] + plan)
                return Running(ledger: ledger, device: device, firewall: firewall, plan: plan)
            }
        } catch {
            device.close()
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
        running.device.close()
        stop(running.ledger)
        clients = [:]
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
    private func steps(_ settings: ServerNetworkSettings) throws(LinuxNetworkError) -> [NetworkStep] {
        guard let link = try network.netlink.link(named: settings.name) else {
            throw LinuxNetworkError(.netlink(operation: "find interface '\(settings.name)'"), errno: ENODEV)
        }
        let interface = InterfaceReference(name: settings.name, index: link.index)
        var steps: [NetworkStep] = [.interface(name: settings.name)]
        steps += settings.addresses.map { .address($0, interface) }
        steps.append(.link(interface, mtu: settings.mtu))
        if settings.addresses.contains(where: { !$0.isIPv6 }) {
            steps.append(.setting(path: Self.forwarding4, value: "1"))
            // A new interface has what `default` says, whatever the others do.
            steps.append(.setting(path: "\(Self.kernel)/ipv4/conf/\(settings.name)/forwarding", value: "1"))
        }
        if settings.addresses.contains(where: \.isIPv6) {
            // Whoever forwards takes no address and no route from routers, unless told to: the server would lose its own.
            for link in try network.netlink.links() where !link.isLoopback && link.name != settings.name {
                let path = "\(Self.kernel)/ipv6/conf/\(link.name)/accept_ra"
                if try SmallFile.text(path) == "1" { steps.append(.setting(path: path, value: "2")) }
            }
            steps.append(.setting(path: Self.forwarding6, value: "1"))
        }
        return steps
    }

    // MARK: - Clients

    /// Lets clients in and takes others out, all at once.
    /// - Parameter changes: of each address the chain that its packets go to; nil for nobody's.
    func change(_ changes: [IPAddress: String?]) throws(TunnelServerError) {
        guard let running else { throw .notRunning }
        var (added, removed): ([IPAddress: String], [IPAddress: String]) = ([:], [:])
        for (address, chain) in changes where clients[address] != chain {
            if let before = clients[address] { removed[address] = before }
            clients[address] = chain
            added[address] = chain
        }
        let commands = running.firewall.remove(removed) + running.firewall.add(added)
        guard !commands.isEmpty, !isHeld else { return }
        hasChangedClients = true
        try Self.onHost { () throws(LinuxNetworkError) in
            do throws(LinuxNetworkError) {
                try load(commands)
            } catch {
                // Others changed the map meanwhile.
                logger.warning("the firewall's clients are made anew: \(error)")
                try reload(running)
            }
        }
    }

    private func load(_ commands: [String]) throws(LinuxNetworkError) {
        guard !commands.isEmpty else { return }
        try SystemProgram.required("nft").check(["-j", "-f", "-"], input: NFT.script(commands))
    }

    private func reload(_ running: Running) throws(LinuxNetworkError) {
        try running.ledger.apply([.firewall(running.firewall.table(clients: clients))] + running.plan)
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
                if try network.netlink.link(named: running.firewall.settings.name) != nil {
                    let undone = try running.ledger.undone(of: running.plan)
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

    /// The least time between two lists of the clients that no other gave reason for: there may be many.
    private static let listingInterval: Int64 = 5 * LaneClock.nanosecondsPerSecond

    private func lookAtFirewall(_ running: Running, _ origin: String) throws(LinuxNetworkError) -> Bool {
        let (firewall, name) = (running.firewall, running.firewall.tableName)
        // The rules are compared without what is in maps, which changes all the time.
        let isWhole = try network.missing(of: [.firewall(FirewallTable(name: name, body: "", form: .json))]).isEmpty
        guard isWhole else {
            // Rules that let nobody in are there sooner than those with all clients.
            try running.ledger.restore([.firewall(firewall.table(clients: [:]))])
            try load(firewall.add(clients))
            note(["firewall table \(name)"], origin)
            return true
        }
        let now = LaneClock.now()
        if hasChangedClients, now - lastListing < Self.listingInterval { return false }
        (hasChangedClients, lastListing) = (false, now)
        guard try presentClients(name) != clients else { return true }
        try load(firewall.replace(clients))
        note(["clients of firewall table \(name)"], origin)
        return true
    }

    /// The most that nft says of a client.
    private static let listedClient = 256

    private func presentClients(_ table: String) throws(LinuxNetworkError) -> [IPAddress: String] {
        var present: [IPAddress: String] = [:]
        for isIPv6 in [false, true] {
            let listing = try SystemProgram.required("nft").check(
                ["-j", "list", "map", "inet", table, ServerFirewall.map(isIPv6: isIPv6)],
                outputLimit: (clients.count + 4096) * Self.listedClient)
            do {
                present.merge(try VerdictListing(json: listing).entries) { first, _ in first }
            } catch {
                throw LinuxNetworkError(
                    .programFailed(path: "nft", status: 0, output: "a list of clients that cannot be read"))
            }
        }
        return present
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
        do throws(TunnelIOError) {
            try running.device.setUp(false)
            logger.error("nothing is forwarded until the firewall is there again")
        } catch {
            logger.error("\(error)")
        }
    }
}
