// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import NetworkAddresses
public import PacketTunnel
import Synchronization
public import TunnelIO

/// A tunnel's part of a Linux host: a TUN interface, addresses, routes, policy rules, name servers and a firewall.
///
/// Every change is written to a journal before it is made, and undone when the tunnel ends; after a crash the next start,
/// or ``cleanUp(name:options:)``, undoes it. Under the strict leak policies the firewall stays after a crash until then,
/// so that nothing leaks meanwhile.
///
/// The tunnel is in the network namespace of the thread that makes this object. It has a thread of its own, so that nobody
/// waits for the kernel or for programs on another one.
public final class LinuxPlatform: TunnelPlatform {
    /// The tunnel's name, which its interface has as well.
    public let name: String
    /// The thread of the tunnel's network.
    let loop: EventLoop
    private let core: OnLoop

    /// What is used on the loop's thread only.
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

    /// A platform for the tunnel of this name.
    /// - Parameters:
    ///   - name: 1 to 15 letters, digits and the signs `_=+.-`.
    ///   - options: what is not in the tunnel's settings.
    ///   - logger: where it says what it could not do.
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
        // Sockets belong to the namespace of the thread that makes them, and so does a thread.
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
        // Other threads can read the problems while this one waits.
        core.core.published = { [shared, unowned core = core.core] in shared.update(from: core) }
        do throws(TunnelIOError) {
            // It does not keep the host's work alive, and ends with the watch.
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
                "what others undo of the tunnel's network is not all noticed here: the kernel does not tell of it")
        }
    }

    deinit {
        watch.stop()
        loop.stop()
    }

    /// What others have undone of the tunnel's network, and was made again.
    public var repairs: NetworkRepairs { shared.repairs }

    /// The parts of the tunnel's network that are not in effect at present, and since when.
    public var problems: [NetworkProblem] { shared.problems }

    /// The leak policy in effect: stricter than that of the settings if one was held while the tunnel was up, until its end.
    public var leakPolicy: LeakPolicy { shared.policy }

    /// Sets a callback for an interface that was renamed or moved to another network namespace. It is called on the platform's
    /// thread.
    func onInterfaceLost(_ body: @escaping @Sendable (TunnelError) -> Void) {
        // The thread takes it before any request.
        _ = loop.perform { [core] in core.core.interfaceLost = body }
    }

    /// The mark that the tunnel's own sockets need (`SO_MARK`), by which their packets get around the tunnel's routes and
    /// through its firewall; nil before the first start. It stays the same while the tunnel is up.
    public var socketMark: UInt32? { mark.withLock { $0 } }

    /// Undoes what a tunnel of this name has left that ended without doing so itself. For the calling thread's network
    /// namespace. Waits for the kernel and for programs: for seconds, or a minute or two where resolvconf is stuck.
    /// It also removes changes that only the kernel lists: a journal may have been deleted or damaged.
    /// - Returns: what was undone, for people; empty where there was nothing.
    /// - Throws: `.tunnelRunning`; `.incompleteUndo`, after which it can be tried again; `.journalLost` if previous
    ///   values are lost.
    public static func cleanUp(
        name: String, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> [String] {
        try cleanUp(name: name, directory: JournalDirectory(path: options.journalFolder))
    }

    /// Undoes the remains of a tunnel like ``cleanUp(name:options:)``, and waits for the lock of the journals no longer than `directory`
    /// allows.
    package static func cleanUp(name: String, directory: JournalDirectory) throws(LinuxNetworkError) -> [String] {
        try JournalDirectory.validate(name)
        return try undoRemains(name, directory, LinuxNetwork())
    }

    /// The names of the tunnels that run or have left something behind.
    public static func tunnels(options: LinuxHostOptions = LinuxHostOptions()) -> [String] {
        JournalDirectory(path: options.journalFolder).names()
    }

    // MARK: - TunnelPlatform

    /// Undoes what a crash left behind, and holds back everything where the policy says so from the start on.
    public func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try await onThread { (core) throws(TunnelError) in
            do throws(LinuxNetworkError) {
                try core.prepare(policy)
            } catch {
                throw TunnelError(error)
            }
        }
    }

    /// Brings settings into force instead of those before; where that fails, those before stay.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        let watch = watch
        return try await onThread { (core) throws(TunnelError) in
            do throws(TunnelError) {
                return try core.apply(settings)
            } catch {
                // Those before may be there in part only.
                watch.lookAgain()
                throw error
            }
        }
    }

    /// Undoes everything, or all but what holds packets back.
    public func tearDown(leavingBlocked: Bool) async {
        do throws(TunnelError) {
            try await onThread { (core) throws(TunnelError) in core.tearDown(leavingBlocked: leavingBlocked) }
        } catch {
            // The thread is gone with the object, which nobody can call then.
        }
    }

    /// Those of the machine's manager of name servers, without the tunnel's own.
    public func outsideNameServers() async -> [IPAddress] {
        do throws(TunnelError) {
            return try await onThread { (core) throws(TunnelError) in core.outsideNameServers() }
        } catch {
            return []
        }
    }

    /// A path with the name servers that it has outside of the tunnel. On the loop's thread.
    func completed(_ path: NetworkPath) -> NetworkPath {
        guard !path.isCutOff else { return path }
        var path = path
        path.dnsServers = core.core.outsideNameServers()
        return path
    }

    /// A path with the name servers that it has before there is a tunnel.
    func firstPath(_ path: NetworkPath) -> NetworkPath {
        guard !path.isCutOff else { return path }
        var path = path
        do throws(LinuxNetworkError) {
            path.dnsServers = try resolver.outsideServers(tunnel: name, record: nil)
        } catch {
            // Whoever needs them asks again, and finds the reason in the log.
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
