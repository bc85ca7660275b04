// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Logging
package import NetworkAddresses
package import PacketTunnelLinux
import Synchronization
package import TunnelIO

/// A server's part of a Linux host: the tunnel's interface with addresses and routes, forwarding, NAT, and the firewall in
/// front of its clients (``ServerFirewall``).
///
/// It applies the firewall rules first and enables forwarding last. It writes every change to a journal before it makes the
/// change, and undoes all of them at the end; the next start undoes the changes of a killed process. If another program
/// deletes rules, it stops forwarding as soon as the kernel reports that, and restores them. If it cannot, or if the host
/// forwarded before it started, it takes the interface down until it can. If rules are deleted again and again, forwarding
/// resumes only after they have stayed in effect for a while (``LossBackoff``).
///
/// It works in the network namespace of the thread that creates it, and has two threads. The second thread ends the
/// connections of removed clients, which may take long. A change does not wait for that, unless it gives a removed
/// client's address to another client. A caller that makes its changes one after another then waits before its later
/// changes too.
package final class ServerNetwork: Sendable {
    package let settings: ServerNetworkSettings
    private let loop: EventLoop
    private let core: OnLoop
    private let watch: NetworkWatch
    private let shared = Shared()

    /// The thread that ends connections.
    private let ends: EventLoop

    /// State that only the loop's thread uses.
    private final class OnLoop: @unchecked Sendable {
        let core: ServerNetworkCore
        private let endNow: ServerNetworkCore.EndOtherConnections
        private weak let loop: EventLoop?
        private weak let ends: EventLoop?
        /// The answers that wait until connections of these networks have ended.
        private var answers: [(networks: Set<IPPrefix>, answer: @Sendable () -> Void)] = []

        init(
            _ core: ServerNetworkCore, loop: EventLoop, ends: EventLoop,
            _ endConnections: @escaping ServerNetworkCore.EndOtherConnections
        ) {
            self.core = core
            (self.loop, self.ends) = (loop, ends)
            endNow = endConnections
        }

        /// Has the other thread end the connections of removed clients.
        /// - Parameters:
        ///   - retries: Whether connections that an earlier attempt has not ended are tried again.
        ///   - whenDone: Called on the loop's thread after each attempt.
        func endConnections(retries: Bool = true, whenDone: @escaping @Sendable () -> Void) {
            guard let end = core.connectionsToEnd(retries: retries) else { return }
            let isTaken = ends?.perform { [self] in
                let result = Result { () throws(LinuxNetworkError) in
                    try endNow(Array(end.attempt.networks), end.attempt.kept)
                }
                loop?.perform { [self] in
                    core.ended(end, result)
                    endConnections(retries: false, whenDone: whenDone)
                    answer(tried: end.attempt)
                    whenDone()
                }
            }
            // The other thread has ended, as it does when the network is released.
            if isTaken != true { core.ended(end, .success((0, nil))) }
        }

        /// Calls `answer` when connections of former clients with these addresses have ended, or an attempt to end them has failed.
        func afterConnections(of networks: some Sequence<IPPrefix>, _ answer: @escaping @Sendable () -> Void) {
            let networks = core.withConnections(Set(networks))
            guard core.isEndingConnections, !networks.isEmpty else { return answer() }
            answers.append((networks, answer))
        }

        private func answer(tried: ConnectionEnds.Attempt) {
            let waiting = answers
            answers = []
            for (networks, answer) in waiting {
                afterConnections(of: networks.filter { !tried.includes($0) }, answer)
            }
        }
    }

    private final class Shared: Sendable {
        let state = Mutex(NetworkState())

        /// Publishes the state, and schedules a comparison if a change is not applied.
        func update(from core: ServerNetworkCore, _ watch: NetworkWatch? = nil) {
            state.withLock { state in
                (state.repairs, state.isHeld, state.isCurrent) = (core.repairs, core.isHeld, core.isCurrent)
                (state.problems, state.exclusions) = (core.problems.list, core.exclusions.list)
                state.warnings = core.warnings
            }
            if !core.isCurrent || !core.exclusions.list.isEmpty || core.hasConnectionsToEnd { watch?.scheduleRetry() }
        }
    }

    /// - Throws: `.network` for a name that no interface can have, or without netlink or threads.
    package convenience init(
        _ settings: ServerNetworkSettings, logger: Logger = Logger(label: "server")
    ) throws(TunnelServerError) {
        try self.init(settings, logger: logger) { (networks, kept) throws(LinuxNetworkError) in
            try ConnectionSocket().deleteConnections(of: networks, except: kept)
        }
    }

    /// - Parameter endConnections: Ends the connections of networks, without exceptions. Called on any thread of the network.
    convenience init(
        _ settings: ServerNetworkSettings, logger: Logger, endConnections: @escaping ServerNetworkCore.EndConnections
    ) throws(TunnelServerError) {
        try self.init(settings, logger: logger) { (networks, _) throws(LinuxNetworkError) in
            try endConnections(networks)
        }
    }

    /// - Parameter endOtherConnections: Ends the connections of networks. Called on any thread of the network.
    init(
        _ settings: ServerNetworkSettings, logger: Logger,
        endOtherConnections: @escaping ServerNetworkCore.EndOtherConnections
    ) throws(TunnelServerError) {
        self.settings = settings
        do throws(TunnelIOError) {
            loop = try EventLoop()
            ends = try EventLoop()
            try loop.startThread(name: "culvert-srv")
            try ends.startThread(name: "culvert-ends")
        } catch {
            throw .interface(error)
        }
        do throws(LinuxNetworkError) {
            core = OnLoop(
                try ServerNetworkCore(settings, logger: logger), loop: loop, ends: ends, endOtherConnections)
            watch = try NetworkWatch(
                tunnel: settings.name, folder: JournalDirectory(path: settings.journalFolder), loop: loop)
        } catch {
            throw .network(error)
        }
        // A program may run for seconds while another process removes the rules.
        core.core.network.whileWaiting = { [weak watch] in watch?.readFirewallNotices() }
        do throws(TunnelIOError) {
            try watch.start(tableReduced: { [core, shared] in
                guard core.core.holdAtNotice() else { return false }
                // A change of clients may be in progress, so its state cannot be read.
                shared.state.withLock { ($0.isHeld, $0.isCurrent) = (true, false) }
                return true
            }) { [core, shared, weak watch] parts, culprit in
                let again = core.core.reconcile(parts, culprit: culprit)
                // The attempt may fail after this check has set the time of the next one.
                core.endConnections { [weak watch] in shared.update(from: core.core, watch) }
                shared.update(from: core.core)
                return again
            }
        } catch {
            throw .interface(error)
        }
        if watch.unwatched.contains(.firewall) {
            logger.warning("this system does not report when another program changes the firewall")
        }
    }

    deinit {
        watch.stop()
        loop.stop()
        ends.stop()
    }

    /// The changes by other programs that the server has reverted.
    package var repairs: NetworkRepairs { state.repairs }
    /// Whether forwarding is stopped because the rules were removed and could not be restored.
    package var isHeld: Bool { state.isHeld }
    /// The state of the network.
    package var state: NetworkState { shared.state.withLock { $0 } }

    /// Sets up the network, without clients.
    /// - Parameter isMultiQueue: Whether the devices should have several queues. An existing interface keeps its kind.
    /// - Returns: the device and the devices of the further tunnels, which ``stop()`` closes, and the settings in effect:
    ///   without IPv6 if the host has it disabled.
    package func start(
        isMultiQueue: Bool
    ) async throws(TunnelServerError) -> (device: LinuxTun, further: [LinuxTun], settings: ServerNetworkSettings) {
        try await onThread { core throws(TunnelServerError) in try core.start(isMultiQueue: isMultiQueue) }
    }

    /// Stops the network, and undoes all of its changes.
    package func stop() async {
        do throws(TunnelServerError) {
            try await onThread { core throws(TunnelServerError) in core.stop() }
        } catch {
            // The thread ends with this object; nothing can call it then.
        }
    }

    /// Changes the clients that are desired, and applies them. When this returns, the kernel has them: a flow that the rules forbid
    /// ends with its next packet in either direction, and other flows continue. A failed change is repeated until it is applied, or until
    /// another change takes its place.
    /// - Parameters:
    ///   - changes: The access of each address, or network behind a client; `nil` removes it.
    ///   - isComplete: Whether all other clients are removed. After the first such change since the start, the connections of all
    ///     other addresses in the clients' networks end, which an earlier process may not have ended.
    ///   - released: Clients that were removed before this change, even if it admits them again: their connections end. If other
    ///     clients have their addresses now, the answer waits for that.
    /// - Returns: All clients that are excluded now, each with the reason. They are tried again every few seconds.
    package func apply(
        _ changes: [IPPrefix: ClientAccess?], isComplete: Bool = false, released: Set<IPPrefix> = []
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        try await onThread(admitting: released.union(changes.keys)) {
            core throws(TunnelServerError) in
            try core.change(changes, isComplete: isComplete, released: released)
        }
    }

    /// Starts to end the connections of removed clients, and publishes the state.
    private func endConnections() {
        core.endConnections { [core, shared, watch] in shared.update(from: core.core, watch) }
        shared.update(from: core.core, watch)
    }

    /// Checks networks that clients are about to get: the host must be able to route them into the tunnel, and must not need their
    /// addresses itself.
    /// - Throws: `.subnet` for the first that no client may get, with the reason.
    package func check(subnets: [IPPrefix]) async throws(TunnelServerError) {
        try await onThread { core throws(TunnelServerError) in try core.check(subnets: subnets) }
    }

    /// - Parameter admitted: The clients that the operation may admit. For each that is a client after the operation,
    ///   the answer waits until the connections of the former client with its address have ended.
    private func onThread<Result: Sendable>(
        admitting admitted: some Sequence<IPPrefix> = [],
        _ body: @escaping @Sendable (ServerNetworkCore) throws(TunnelServerError) -> Result
    ) async throws(TunnelServerError) -> Result {
        let admitted = Array(admitted)
        let result: Swift.Result<Result, TunnelServerError> = await withCheckedContinuation { continuation in
            let isTaken = loop.perform { [self] in
                let result = Swift.Result { () throws(TunnelServerError) in try body(core.core) }
                endConnections()
                core.afterConnections(of: admitted.filter(core.core.isDesired)) {
                    continuation.resume(returning: result)
                }
            }
            if !isTaken { continuation.resume(returning: .failure(.notRunning)) }
        }
        return try result.get()
    }
}

/// The state of a server's network.
package struct NetworkState: Hashable, Sendable {
    /// The changes of other processes that were undone.
    package var repairs = NetworkRepairs()
    /// Whether nothing is forwarded, since the firewall is lost or its state is not known.
    package var isHeld = false
    /// Whether everything that is desired is applied, except for clients that are excluded.
    package var isCurrent = true
    /// The parts that are not in effect.
    package var problems: [NetworkProblem] = []
    /// The clients that are excluded.
    package var exclusions: [NetworkProblem] = []
    /// The limits and rules that this kernel does not support. Clients are served without them.
    package var warnings: [String] = []

    package init() {}
}
