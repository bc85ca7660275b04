// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import NetworkAddresses
public import PacketTunnel
import Synchronization
public import TunnelIO

/// A tunnel's part of a Linux host's network: a TUN interface, addresses, routes, policy rules, name servers and a
/// firewall.
///
/// Every change is written to a journal before it is made, and undone when the tunnel ends. After a crash the next
/// start or ``cleanUp(name:options:)`` undoes it. Under the strict leak policies the firewall stays until then, so that
/// no packet leaks.
///
/// The tunnel is in the network namespace of the thread that creates this object. The platform has its own thread, so
/// that no other thread waits for the kernel or for programs.
public final class LinuxPlatform: TunnelPlatform {
    /// The name of the tunnel and of its interface.
    public let name: String
    /// The thread of the tunnel's network.
    let loop: EventLoop
    private let core: OnLoop

    /// The state that only the loop's thread uses.
    private final class OnLoop: @unchecked Sendable {
        let core: LinuxPlatformCore
        init(_ core: LinuxPlatformCore) { self.core = core }
    }

    let options: LinuxHostOptions
    let logger: Logger
    private let watch: NetworkWatch
    private let mark = Mutex<UInt32?>(nil)
    private let shared = Shared()

    /// The values that other threads may read.
    private final class Shared: Sendable {
        private let value = Mutex(
            (repairs: NetworkRepairs(), problems: [NetworkProblem](), policy: LeakPolicy.routeBased))

        var repairs: NetworkRepairs { value.withLock { $0.repairs } }
        var problems: [NetworkProblem] { value.withLock { $0.problems } }
        var policy: LeakPolicy { value.withLock { $0.policy } }

        func update(from core: LinuxPlatformCore) {
            value.withLock { $0 = (core.repairs, core.problems.list, core.policy) }
        }
    }
    private let resolver: ResolverControl

    /// Creates a platform for the tunnel of this name.
    /// - Parameters:
    ///   - name: 1 to 15 letters, digits and the characters `_=+.-`.
    ///   - options: The setup beyond the tunnel's settings.
    ///   - logger: Logs failures.
    /// - Throws: `.invalidTunnelName`; `.netlink` without netlink or threads.
    public convenience init(
        name: String, options: LinuxHostOptions = LinuxHostOptions(), logger: Logger = Logger(label: "tunnel")
    ) throws(LinuxNetworkError) {
        try self.init(name: name, options: options, logger: logger, owner: .current) { $0 }
    }

    init(
        name: String, options: LinuxHostOptions, logger: Logger, owner: JournalOwner,
        resolver: ResolverControl = ResolverControl(), wrap: (any NetworkSystem) -> any NetworkSystem
    ) throws(LinuxNetworkError) {
        try JournalDirectory.validate(name)
        self.name = name
        self.options = options
        self.logger = logger
        self.resolver = resolver
        // Sockets and threads belong to the network namespace of the thread that creates them.
        let network = try LinuxNetwork(resolver: resolver)
        core = OnLoop(
            LinuxPlatformCore(
                name: name, options: options, logger: logger, network: network, owner: owner, wrap: wrap))
        do throws(TunnelIOError) {
            loop = try EventLoop()
            try loop.startThread(name: "culvert-net")
        } catch {
            throw LinuxNetworkError(.netlink(operation: LinuxNetworkError.threadStart), errno: error.errno)
        }
        watch = try NetworkWatch(
            tunnel: name, folder: JournalDirectory(path: options.journalFolder), settings: RoutingPlan.watchedSettings,
            resolver: resolver.file, loop: loop)
        core.core.pollsResolver = watch.unwatched.contains(.resolver)
        core.core.wake = { [weak watch, weak loop] in _ = loop?.perform { [weak watch] in watch?.check() } }
        // Other threads can then read the problems while this thread waits.
        core.core.published = { [shared, unowned core = core.core] in shared.update(from: core) }
        do throws(TunnelIOError) {
            // The callback does not keep the host's work alive, and ends with the watch.
            let rulesDeleted: @Sendable (Set<PolicyRule>?) -> Void = { [weak core, shared] deleted in
                guard let core else { return }
                core.core.restoreRules(deleted)
                shared.update(from: core.core)
            }
            core.core.readNotices = { [weak watch] in watch?.readRoutingNotices() }
            try watch.start(rulesDeleted: rulesDeleted) { [core, shared] parts, culprit in
                defer { shared.update(from: core.core) }
                return core.core.reconcile(parts, culprit: culprit)
            }
        } catch {
            throw LinuxNetworkError(.netlink(operation: "follow changes of the network"), errno: error.errno)
        }
        if !watch.unwatched.isEmpty {
            logger.warning(
                "some changes of the tunnel's network by other processes will not be noticed: the kernel does not report them"
            )
        }
    }

    deinit {
        watch.stop()
        loop.stop()
    }

    /// The changes by other processes that were repaired.
    public var repairs: NetworkRepairs { shared.repairs }

    /// The parts of the tunnel's network that are not in effect now, each with the time since when.
    public var problems: [NetworkProblem] { shared.problems }

    /// The leak policy in effect. It is stricter than that of the settings if a stricter one was held while the tunnel
    /// was up; this lasts until the tunnel's end.
    public var leakPolicy: LeakPolicy { shared.policy }

    /// Sets the callback for the loss of the interface, which was renamed or moved to another network namespace. It is
    /// called on the platform's thread.
    func onInterfaceLost(_ body: @escaping @Sendable (TunnelError) -> Void) {
        // The loop runs this before any later request.
        _ = loop.perform { [core] in core.core.interfaceLost = body }
    }

    /// The mark that the tunnel's own sockets need (`SO_MARK`) so that their packets bypass the tunnel's routes and
    /// pass its firewall; `nil` before the first start. It stays the same while the tunnel is up.
    public var socketMark: UInt32? { mark.withLock { $0 } }

    /// Undoes the changes that a tunnel of this name left when it ended, in the calling thread's network namespace. It
    /// also removes changes that only the kernel lists, because a journal may have been deleted or damaged. It waits
    /// for the kernel and for programs: for seconds, or for a minute or two if resolvconf hangs.
    /// - Returns: The undone changes, as text for users; empty if there were none.
    /// - Throws: `.tunnelRunning`; `.incompleteUndo`, after which the call can be repeated; `.journalLost` if previous
    ///   values are lost.
    public static func cleanUp(
        name: String, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> [String] {
        try cleanUp(name: name, directory: JournalDirectory(path: options.journalFolder))
    }

    /// Undoes the remains of a tunnel like ``cleanUp(name:options:)``, but waits for the lock of the journals for at
    /// most the limit of `directory`.
    package static func cleanUp(name: String, directory: JournalDirectory) throws(LinuxNetworkError) -> [String] {
        try JournalDirectory.validate(name)
        return try undoRemains(name, directory, LinuxNetwork())
    }

    /// Returns the names of the tunnels that run or that have left changes behind.
    public static func tunnels(options: LinuxHostOptions = LinuxHostOptions()) -> [String] {
        JournalDirectory(path: options.journalFolder).names()
    }

    // MARK: - TunnelPlatform

    /// Undoes the changes that a crash left, and blocks all packets from now on if the policy requires it.
    public func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try await onThread { (core) throws(TunnelError) in
            do throws(LinuxNetworkError) {
                try core.prepare(policy)
            } catch {
                throw TunnelError(error)
            }
        }
    }

    /// Replaces the present settings. If that fails, the present ones stay.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        let watch = watch
        return try await onThread { (core) throws(TunnelError) in
            do throws(TunnelError) {
                return try core.apply(settings)
            } catch {
                // The previous settings may be in effect only in part, so schedule a repair.
                watch.scheduleRetry()
                throw error
            }
        }
    }

    /// Undoes all changes, or all except those that block packets.
    public func tearDown(leavingBlocked: Bool) async {
        do throws(TunnelError) {
            try await onThread { (core) throws(TunnelError) in core.tearDown(leavingBlocked: leavingBlocked) }
        } catch {
            // The thread ends only with this object, so this cannot happen.
        }
    }

    /// Returns the name servers of the machine's manager, without those of the tunnel.
    public func outsideNameServers() async -> [IPAddress] {
        do throws(TunnelError) {
            return try await onThread { (core) throws(TunnelError) in core.outsideNameServers() }
        } catch {
            return []
        }
    }

    /// Returns the path with its name servers outside the tunnel. Call it on the loop's thread.
    func completed(_ path: NetworkPath) -> NetworkPath {
        guard !path.isCutOff else { return path }
        var path = path
        path.dnsServers = core.core.outsideNameServers()
        return path
    }

    /// Returns the path with its name servers, before there is a tunnel.
    func firstPath(_ path: NetworkPath) -> NetworkPath {
        guard !path.isCutOff else { return path }
        var path = path
        do throws(LinuxNetworkError) {
            path.dnsServers = try resolver.outsideServers(tunnel: name, record: nil)
        } catch {
            // The caller repeats this later, and the reason has been logged.
        }
        return path
    }

    private func onThread<Result: Sendable>(
        _ body: @escaping @Sendable (LinuxPlatformCore) throws(TunnelError) -> Result
    ) async throws(TunnelError) -> Result {
        let result: Swift.Result<Result, TunnelError> = await withCheckedContinuation { continuation in
            let isTaken = loop.perform { [self] in
                let result: Swift.Result<Result, TunnelError>
                do throws(TunnelError) {
                    result = .success(try body(core.core))
                } catch {
                    result = .failure(error)
                }
                mark.withLock { $0 = core.core.numbers?.mark }
                shared.update(from: core.core)
                continuation.resume(returning: result)
            }
            if !isTaken {
                continuation.resume(returning: .failure(TunnelError(.hostFailed, "the host's thread has ended")))
            }
        }
        return try result.get()
    }
}
