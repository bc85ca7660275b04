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
        var changes: [IPAddress: String?] = [:]
        var completions: [@Sendable (TunnelServerError?) -> Void] = []
        var isScheduled = false
    }

    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    private struct State {
        var repairs = NetworkRepairs()
        var isHeld = false
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
                shared.state.withLock { $0 = State(repairs: core.core.repairs, isHeld: core.core.isHeld) }
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
    package var repairs: NetworkRepairs { shared.state.withLock { $0.repairs } }
    /// Whether nothing is forwarded since the rules are gone and could not be made again.
    package var isHeld: Bool { shared.state.withLock { $0.isHeld } }

    /// Brings everything up, without clients.
    /// - Returns: the device, which the caller closes with ``stop()``, and the settings in force: nothing of IPv6 is in them where
    ///   the host has it switched off.
    package func start(
        isMultiQueue: Bool = false
    ) async throws(TunnelServerError) -> (device: LinuxTun, settings: ServerNetworkSettings) {
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

    /// Lets packets of these addresses in. When this returns, the kernel has them.
    /// - Parameter chain: the chain of the table that they go to.
    package func allow(
        _ addresses: [IPAddress], chain: String = ServerFirewall.standardChain
    ) async throws(TunnelServerError) {
        try await change(addresses.map { ($0, chain) })
    }

    /// Lets nothing of these addresses in any more.
    package func remove(_ addresses: [IPAddress]) async throws(TunnelServerError) {
        try await change(addresses.map { ($0, nil) })
    }

    /// The same without waiting for it: what is let in after this call stays in. Many are taken out together.
    /// - Parameter completion: called with what went wrong, on any thread. It must not wait.
    package func remove(_ addresses: [IPAddress], completion: @escaping @Sendable (TunnelServerError?) -> Void) {
        change(addresses.map { ($0, nil) }, completion: completion)
    }

    private func change(_ changes: [(IPAddress, String?)]) async throws(TunnelServerError) {
        let error = await withCheckedContinuation { continuation in
            change(changes) { continuation.resume(returning: $0) }
        }
        if let error { throw error }
    }

    private func change(
        _ changes: [(IPAddress, String?)], completion: @escaping @Sendable (TunnelServerError?) -> Void
    ) {
        let schedules = waiting.withLock { waiting in
            for (address, chain) in changes { waiting.changes.updateValue(chain, forKey: address) }
            waiting.completions.append(completion)
            defer { waiting.isScheduled = true }
            return !waiting.isScheduled
        }
        guard schedules else { return }
        if !loop.perform({ [self] in makeChanges() }) {
            finishChanges { _ throws(TunnelServerError) in throw .notRunning }
        }
    }

    private func makeChanges() {
        finishChanges { (changes) throws(TunnelServerError) in try core.core.change(changes) }
    }

    private func finishChanges(_ body: ([IPAddress: String?]) throws(TunnelServerError) -> Void) {
        let taken = waiting.withLock { waiting in
            defer { waiting = Waiting() }
            return waiting
        }
        var failure: TunnelServerError?
        do throws(TunnelServerError) { try body(taken.changes) } catch { failure = error }
        for completion in taken.completions { completion(failure) }
    }

    private func onThread<Result: Sendable>(
        _ body: @escaping @Sendable (ServerNetworkCore) throws(TunnelServerError) -> Result
    ) async throws(TunnelServerError) -> Result {
        let result: Swift.Result<Result, TunnelServerError> = await withCheckedContinuation { continuation in
            let isTaken = loop.perform { [core] in
                let result: Swift.Result<Result, TunnelServerError>
                do throws(TunnelServerError) { result = .success(try body(core.core)) } catch {
                    result = .failure(error)
                }
                continuation.resume(returning: result)
            }
            if !isTaken { continuation.resume(returning: .failure(.notRunning)) }
        }
        return try result.get()
    }
}
