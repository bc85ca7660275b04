// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnelTesting
import Synchronization
import TunnelSystem

@testable import PacketTunnel
@testable import PacketTunnelApple

/// A host as an extension would declare it, with the settings of a test.
final class TunnelUnderTest<Provider: PacketTunnelProvider>: NetworkExtensionHost<Provider>, @unchecked Sendable {
    private let chosen: NetworkExtensionOptions
    private let make: @Sendable () -> Provider

    init(_ options: NetworkExtensionOptions, _ make: @escaping @Sendable () -> Provider) {
        (chosen, self.make) = (options, make)
        super.init()
    }

    override var options: NetworkExtensionOptions { chosen }

    override func makeProvider() -> Provider { make() }
}

/// Acts on a tunnel provider as the system does, through its methods and completion handlers only, and counts the latter.
final class SystemSide<Provider: PacketTunnelProvider>: TunnelHost, @unchecked Sendable {
    let tunnel: TunnelUnderTest<Provider>
    /// Notified of the provider's reports to the system, and of its packets.
    let changes = Changes()
    private let counts = Mutex<(calls: Int, completions: Int, repeated: [String])>((0, 0, []))

    init(_ options: NetworkExtensionOptions, _ make: @escaping @Sendable () -> Provider) {
        tunnel = TunnelUnderTest(options, make)
        tunnel.standIn.setChangeHandler { [changes] in changes.notify() }
        tunnel.standIn.flow.standIn.setChangeHandler { [changes] in changes.notify() }
    }

    /// The system keeps none for it.
    var secrets: (any SecretStore)? { nil }

    /// The completion handlers that were called more than once, and how many never were.
    var unbalanced: (repeated: [String], missing: Int) {
        counts.withLock { ($0.repeated, $0.calls - $0.completions) }
    }

    /// Makes a call, and waits for its completion handler and value.
    private func call<Value: Sendable>(
        _ name: String, _ body: (@escaping @Sendable (Value) -> Void) -> Void
    ) -> OneShot<Value> {
        let done = OneShot<Value>()
        let calls = Atomic<Int>(0)
        let counter = Handled(calls)
        counts.withLock { $0.calls += 1 }
        body { value in
            if counter.increment() > 1 {
                self.counts.withLock { $0.repeated.append(name) }
            } else {
                self.counts.withLock { $0.completions += 1 }
            }
            done.finish(value)
        }
        return done
    }

    // MARK: - The system

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        // The system knows of no blocking: for it the tunnel is up.
        if status.status == .blocked { return try await restart() }
        let done: OneShot<(any Error)?> = call("startTunnel") { completion in
            tunnel.startTunnel(options: NetworkExtensionStart.options(request, secrets: [:])) { completion($0) }
        }
        let error = await withTaskCancellationHandler {
            await done.value
        } onCancel: {
            // A caller that abandons the start stops it.
            if status.status == .connecting { tunnel.stopTunnel(with: .userInitiated) {} }
        }
        guard let error else { return }
        if status.status == .disconnected { tunnel.standIn.clearSettings() }
        throw TunnelError(error)
    }

    /// Asks the host to start a blocked tunnel again, as the app's channel does.
    func restart() async throws(TunnelError) {
        let reply: OneShot<Data?> = call("handleAppMessage") { completion in
            tunnel.handleAppMessage(ExtensionMessage.encode(.restart(options: nil))) { completion($0) }
        }
        if case .failure(let error) = try ExtensionMessage.reply(await reply.value) { throw error }
    }

    func stop(_ reason: StopReason) async {
        let done: OneShot<Void> = call("stopTunnel") { completion in
            tunnel.stopTunnel(with: .userInitiated) { completion(()) }
        }
        await done.value
        tunnel.standIn.clearSettings()
    }

    var status: TunnelStatusUpdate { tunnel.bridge.runner.status }

    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { tunnel.bridge.runner.statusUpdates() }

    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        let reply: OneShot<Data?> = call("handleAppMessage") { completion in
            tunnel.handleAppMessage(ExtensionMessage.encode(.message(message))) { completion($0) }
        }
        switch try ExtensionMessage.reply(await reply.value) {
        case .answer(let bytes): return bytes
        case .failure(let error): throw error
        case .status: throw TunnelError(.channelFailed, "a status is no answer")
        }
    }

    /// A message as an app sends it that does without a channel.
    func sendPlainMessage(_ message: [UInt8]) async -> [UInt8]? {
        let reply: OneShot<Data?> = call("handleAppMessage") { completion in
            tunnel.handleAppMessage(Data(message)) { completion($0) }
        }
        return await reply.value.map { Array($0) }
    }

    func sleep() async {
        let done: OneShot<Void> = call("sleep") { completion in tunnel.sleep { completion(()) } }
        await done.value
    }

    func wake() { tunnel.wake() }

    func pathChanged(_ path: NetworkPath) { tunnel.bridge.runner.pathChanged(path) }
}

extension SystemSide {
    /// Whether a ping through the tunnel comes back. It is sent again now and then, as any program would: it may be lost.
    /// - Parameter ping: an echo request that a ``VirtualNetwork`` answers.
    func passes(
        _ ping: [UInt8], send: (([UInt8]) -> Void)? = nil, take: (() -> [[UInt8]])? = nil
    ) async -> Bool {
        let (reply, flow) = (VirtualNetwork().receive(ping), tunnel.standIn.flow.standIn)
        let send = send ?? { flow.route([Data($0)]) }
        let take = take ?? { flow.takeWritten().map { Array($0) } }
        for _ in 0..<600 {
            send(ping)
            if await changes.wait(within: .milliseconds(100), until: { take().contains { $0 == reply } }) {
                return true
            }
        }
        return false
    }
}

/// A counter that closures share.
private final class Handled: Sendable {
    private let value: Atomic<Int>

    init(_ value: consuming Atomic<Int>) { self.value = value }

    func increment() -> Int { value.wrappingAdd(1, ordering: .acquiringAndReleasing).newValue }
}
