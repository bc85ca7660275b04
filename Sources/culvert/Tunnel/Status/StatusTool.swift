// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import TunnelSystem

/// Implements `culvert status`.
struct StatusTool: Sendable {
    var runtime: RuntimeDirectory
    var console: Console
    var clock: any Clock<Duration> = ContinuousClock()
    /// The longest time that a tunnel's process may take to answer.
    var patience: Duration = .seconds(5)

    /// Shows all tunnels.
    func list(json: Bool) async throws(CommandProblem) {
        let names = try runtime.tunnels()
        let (runtime, patience) = (runtime, patience)
        let tunnels = await withTaskGroup(of: TunnelSnapshot.self) { group in
            for name in names { group.addTask { await TunnelSnapshot.query(name, runtime, patience) } }
            var tunnels: [TunnelSnapshot] = []
            for await tunnel in group { tunnels.append(tunnel) }
            return tunnels.sorted { $0.name < $1.name }
        }
        if json {
            show(tunnels)
        } else if tunnels.isEmpty {
            console.line("no tunnel is up")
        } else {
            for line in StatusText(paint: Paint(console)).table(tunnels) { console.line(line) }
        }
    }

    /// Shows one tunnel, with its rates over half a second.
    func detail(_ name: String, json: Bool) async throws(CommandProblem) {
        guard runtime.hasTunnel(name) else {
            // Fails if the folder may not be read.
            _ = try runtime.tunnels()
            throw Self.notUp(name)
        }
        let channel = UnixTunnelChannel(path: runtime.socket(name))
        var first = await TunnelSnapshot.query(name, channel, patience)
        first.setHeldPolicy(runtime.heldPolicy(name))
        var tunnel = first
        if first.receivedBytes != nil {
            let began = ContinuousClock.now
            do { try await clock.sleep(for: .milliseconds(500)) } catch {
                throw CommandProblem(ExitStatus.interrupted, "interrupted")
            }
            tunnel = await TunnelSnapshot.query(name, channel, patience)
            tunnel.setHeldPolicy(first.heldPolicy)
            tunnel.rates = tunnel.rates(since: first, over: ContinuousClock.now - began)
        }
        if json {
            show([tunnel])
        } else {
            for line in StatusText(paint: Paint(console)).detail(tunnel) { console.line(line) }
        }
    }

    /// Shows tunnels as one JSON document.
    func show(_ tunnels: [TunnelSnapshot]) {
        let document: JSON = ["tunnels": .array(tunnels.map(\.json))]
        console.line(document.text)
    }

    /// Shows a tunnel repeatedly, until it ends or the task is cancelled.
    /// - Parameter name: the tunnel; `nil` for the only one.
    /// - Returns: the exit status.
    func watch(_ name: String?, every interval: Duration, json: Bool) async throws(CommandProblem) -> Int32 {
        let names = try name == nil ? runtime.tunnels() : []
        guard let name = name ?? (names.count == 1 ? names.first : nil) else {
            throw CommandProblem(
                names.isEmpty ? ExitStatus.notFound : ExitStatus.usage,
                names.isEmpty ? "no tunnel is up" : "name one of the tunnels: \(names.joined(separator: ", "))")
        }
        let channel = UnixTunnelChannel(path: runtime.socket(name))
        guard await channel.refresh().status.isActive else { throw Self.notUp(name) }
        let view: any WatchView =
            if console.isTerminal, !json {
                LiveWatchView(console) { StandardStream.terminalSize }
            } else {
                LineWatchView(console, json: json)
            }
        let last = await follow(name, channel, every: interval, view)
        guard !Task.isCancelled else {
            view.end("")
            return ExitStatus.interrupted
        }
        let error = last.flatMap(\.error)
        view.end("\(name): the tunnel is down" + (error.map { ": \($0)" } ?? ""))
        return error.map { ExitStatus.of($0.code) } ?? ExitStatus.success
    }

    /// Shows the monitor's updates, until the end.
    /// - Returns: the last status.
    private func follow(
        _ name: String, _ channel: UnixTunnelChannel, every interval: Duration, _ view: any WatchView
    ) async -> TunnelStatusUpdate? {
        let monitor = TunnelMonitor(following: channel.statusUpdates(), every: interval, clock: clock) { update in
            switch update.status {
            case .connected, .reasserting, .connecting: .polling
            case .blocked, .disconnecting: .waiting
            case .disconnected, .invalid: .ended
            }
        } poll: { [patience] in
            (await TunnelSnapshot.query(name, channel, patience), ContinuousClock.now)
        }
        var last: TunnelStatusUpdate?
        var before: (TunnelSnapshot, ContinuousClock.Instant)?
        for await event in monitor {
            switch event {
            case .status(let update):
                last = update
                guard let before, update.status.isActive else { continue }
                var tunnel = before.0
                tunnel.report?.status = update
                tunnel.rates = nil
                // Polling shows its own updates.
                if !update.status.isRunning { view.show(tunnel) }
            case .reply(let (tunnel, now)):
                guard tunnel.report != nil else { continue }
                var tunnel = tunnel
                if let before { tunnel.rates = tunnel.rates(since: before.0, over: now - before.1) }
                view.show(tunnel)
                before = (tunnel, now)
            case .failure: continue
            }
        }
        return last
    }

    static func notUp(_ name: String) -> CommandProblem {
        CommandProblem(ExitStatus.notFound, "tunnel '\(name)' is not up")
    }
}
