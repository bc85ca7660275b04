// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Logging
package import NetworkAddresses
package import PacketTunnelLinux
import Synchronization
package import TunnelIO

/// A server's part of a Linux host: the tunnel's interface with addresses and routes, forwarding, translation of addresses, and
/// the firewall that its clients are behind (``ServerFirewall``).
///
/// Rules come first, forwarding last. Every change is written to a journal before it is made and undone at the end; what a
/// process leaves that was killed, the next start undoes. What others delete of the rules is made again at once, and where that
/// is impossible the interface goes down until it is.
///
/// It is in the network namespace of the thread that makes it, and has a thread of its own.
package final class ServerNetwork: Sendable {
    package let settings: ServerNetworkSettings
    private let loop: EventLoop
    private let core: OnLoop
    private let watch: NetworkWatch
    private let waiting = Mutex(Waiting())
    private let shared = Shared()

    /// What is used on the loop's thread only.
    private final class OnLoop: @unchecked Sendable {
        let core: ServerNetworkCore
        init(_ core: ServerNetworkCore) { self.core = core }
    }

    /// Changes of clients that wait for the ones before: they are made together.
    private struct Waiting {
        var changes: [IPPrefix: ClientAccess?] = [:]
        /// The clients that are removed, even if a later change admits them again.
        var released: Set<IPPrefix> = []
        var requests: [Request] = []
        var isScheduled = false
    }

    private struct Request {
        var prefixes: [IPPrefix]
        var completion: @Sendable (TunnelServerError?) -> Void
    }

    private final class Shared: Sendable {
        let state = Mutex(NetworkState())

        /// Publishes the state, and schedules a comparison if a change is not applied.
        func update(from core: ServerNetworkCore, _ watch: NetworkWatch? = nil) {
            state.withLock { state in
                state = NetworkState(
                    repairs: core.repairs, isHeld: core.isHeld, isCurrent: core.isCurrent,
                    problems: core.problems.list, exclusions: core.exclusions.list)
            }
            if !core.isCurrent || !core.exclusions.list.isEmpty || core.hasConnectionsToEnd { watch?.lookAgain() }
        }
    }

    /// - Throws: `.network` for a name that no interface can have, or without netlink or threads.
    package init(
        _ settings: ServerNetworkSettings, logger: Logger = Logger(label: "server")
    ) throws(TunnelServerError) {
        self.settings = settings
        do throws(TunnelIOError) {
            loop = try EventLoop()
            try loop.startThread(name: "culvert-srv")
        } catch {
            throw .interface(error)
        }
        do throws(LinuxNetworkError) {
            core = OnLoop(try ServerNetworkCore(settings, logger: logger))
            watch = try NetworkWatch(
                tunnel: settings.name, folder: JournalDirectory(path: settings.journalFolder), loop: loop)
        } catch {
            throw .network(error)
        }
        do throws(TunnelIOError) {
            try watch.start { [core, shared] parts, culprit in
                let again = core.core.look(at: parts, culprit: culprit)
                shared.update(from: core.core)
                return again
            }
        } catch {
            throw .interface(error)
        }
        if watch.unwatched.contains(.firewall) {
            logger.warning("changes of the firewall by others are not noticed here")
        }
    }

    deinit {
        watch.stop()
        loop.stop()
    }

    /// What others undid, and was made again.
    package var repairs: NetworkRepairs { state.repairs }
    /// Whether nothing is forwarded since the rules are gone and could not be made again.
    package var isHeld: Bool { state.isHeld }
    /// The state of the network.
    package var state: NetworkState { shared.state.withLock { $0 } }

    /// Brings everything up, without clients.
    /// - Returns: the device and those of the further tunnels, which the caller closes with ``stop()``, and the settings in force:
    ///   nothing of IPv6 is in them where the host has it switched off.
    package func start(
        isMultiQueue: Bool = false
    ) async throws(TunnelServerError) -> (device: LinuxTun, further: [LinuxTun], settings: ServerNetworkSettings) {
        try await onThread { core throws(TunnelServerError) in try core.start(isMultiQueue: isMultiQueue) }
    }

    /// Undoes everything.
    package func stop() async {
        do throws(TunnelServerError) {
            try await onThread { core throws(TunnelServerError) in core.stop() }
        } catch {
            // The thread ends with this object, which nobody can call then.
        }
    }

    /// Lets a client in, or gives it other rules. When this returns, the kernel has them: a flow that they forbid ends with its next
    /// packet, whichever way that goes, and others go on.
    /// - Parameters:
    ///   - addresses: the client's own.
    ///   - subnets: networks behind it, which get routes into the tunnel. The tunnel says whose packets come from there.
    /// - Throws: `.subnet` for the first network that cannot be behind a client; the rest was done.
    package func allow(
        _ addresses: [IPAddress], subnets: [IPPrefix] = [], rules: ClientRules = ClientRules()
    ) async throws(TunnelServerError) {
        try await change(addresses, subnets, rules)
    }

    /// Changes the clients that are desired, and applies them. A failed change is repeated until it is applied, or until another
    /// change takes its place.
    /// - Parameters:
    ///   - changes: The access of each address, or network behind a client; `nil` removes it.
    ///   - isComplete: Whether all other clients are removed.
    /// - Returns: All clients that are excluded now, each with the reason. They are tried again every few seconds.
    package func apply(
        _ changes: [IPPrefix: ClientAccess?], isComplete: Bool = false
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        try await onThread { core throws(TunnelServerError) in try core.change(changes, isComplete: isComplete) }
    }

    /// Lets nothing of a client in or out any more, nor of networks behind it.
    package func remove(_ addresses: [IPAddress], subnets: [IPPrefix] = []) async throws(TunnelServerError) {
        try await change(addresses, subnets, nil)
    }

    /// The same without waiting for it: what is let in after this call stays in. Many are taken out together.
    /// - Parameter completion: called with what went wrong, on any thread. It must not wait.
    package func remove(
        _ addresses: [IPAddress], subnets: [IPPrefix] = [], completion: @escaping @Sendable (TunnelServerError?) -> Void
    ) {
        change(addresses, subnets, nil, completion: completion)
    }

    private func change(
        _ addresses: [IPAddress], _ subnets: [IPPrefix], _ rules: ClientRules?
    ) async throws(TunnelServerError) {
        let error = await withCheckedContinuation { continuation in
            change(addresses, subnets, rules) { continuation.resume(returning: $0) }
        }
        if let error { throw error }
    }

    private func change(
        _ addresses: [IPAddress], _ subnets: [IPPrefix], _ rules: ClientRules?,
        completion: @escaping @Sendable (TunnelServerError?) -> Void
    ) {
        let schedules = waiting.withLock { waiting in
            let prefixes = addresses.map { IPPrefix(host: $0) } + subnets
            for prefix in prefixes {
                waiting.changes.updateValue(rules.map { ClientAccess(rules: $0) }, forKey: prefix)
            }
            if rules == nil { waiting.released.formUnion(prefixes) }
            waiting.requests.append(Request(prefixes: prefixes, completion: completion))
            defer { waiting.isScheduled = true }
            return !waiting.isScheduled
        }
        guard schedules else { return }
        if !loop.perform({ [self] in makeChanges() }) {
            finishChanges { _, _ throws(TunnelServerError) in throw .notRunning }
        }
    }

    private func makeChanges() {
        finishChanges { (changes, released) throws(TunnelServerError) in
            defer { shared.update(from: core.core, watch) }
            let refused = try core.core.change(changes, released: released)
            // The callers get the error, and may try again.
            core.core.forget(changes.keys.filter { refused[$0] != nil })
            return refused
        }
    }

    private func finishChanges(
        _ body: ([IPPrefix: ClientAccess?], Set<IPPrefix>) throws(TunnelServerError) -> [IPPrefix: TunnelServerError]
    ) {
        let taken = waiting.withLock { waiting in
            defer { waiting = Waiting() }
            return waiting
        }
        var failure: TunnelServerError?
        var refused: [IPPrefix: TunnelServerError] = [:]
        do throws(TunnelServerError) { refused = try body(taken.changes, taken.released) } catch { failure = error }
        for request in taken.requests {
            request.completion(failure ?? request.prefixes.lazy.compactMap { refused[$0] }.first)
        }
    }

    private func onThread<Result: Sendable>(
        _ body: @escaping @Sendable (ServerNetworkCore) throws(TunnelServerError) -> Result
    ) async throws(TunnelServerError) -> Result {
        let result: Swift.Result<Result, TunnelServerError> = await withCheckedContinuation { continuation in
            let isTaken = loop.perform { [core, shared, watch] in
                let result: Swift.Result<Result, TunnelServerError>
                do throws(TunnelServerError) { result = .success(try body(core.core)) } catch {
                    result = .failure(error)
                }
                shared.update(from: core.core, watch)
                continuation.resume(returning: result)
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
}
