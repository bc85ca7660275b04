// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting

@testable import WireGuardTunnel

// The handlers of the phone's events.
extension PhoneDay {
    func happen(_ happening: Happening) {
        note { "\(happening)" }
        switch happening {
        case .wake:
            isAwake = true
            awakeSince = world.now
            world.clock.advance(by: world.now - world.clock.now.offset)
            host.wake()
            planSession()
        case .sleep(let isAnnounced):
            guard isAnnounced else {
                isAwake = false
                break
            }
            Task {
                await host.sleep()
                isAwake = false
                note { "asleep" }
            }
        case .attach(let network, let delay):
            world.attached = network
            pendingAnnouncements += 1
            if isAwake { schedule(.announcePath, in: delay) } else { schedule(.announcePath, at: nextWake + delay) }
        case .announcePath:
            pendingAnnouncements = max(pendingAnnouncements - 1, 0)
            announcePath()
        case .burst(let count): burst(count)
        case .setConditions(let isBad): setConditions(isBad: isBad)
        case .cut(let isOn):
            if !isOn { uncut() } else if let attached = world.attached { world.networks[attached].isCut = true }
        case .logIn: world.networks[3].isCaptive = false
        case .forgetMappings: world.forgetMappings()
        case .serverDown: world.isServerUp = false
        case .serverUp(let isRestarted):
            world.isServerUp = true
            if isRestarted {
                world.startServer()
                // The server has lost its sessions; the phone detects that from unanswered data or pings.
                goodSince = nil
            }
        case .serverMoves: world.serverNumber += 1
        case .publish: world.publishedNumber = world.serverNumber
        case .mood(let mood): resolver.mood = [.good, .slow, .failing, .silent][mood]
        case .stop: stop()
        case .start:
            wantsTunnel = true
            start()
        case .retry:
            hasRetry = false
            if wantsTunnel, host.status.status == .disconnected { start() }
        case .reconfigure:
            // The tunnel is `reasserting` until the change is applied.
            goodSince = nil
            reconfigure()
        }
    }

    private func uncut() { for index in world.networks.indices { world.networks[index].isCut = false } }

    private func announcePath() {
        host.pathChanged(world.attached.map { world.networks[$0].path } ?? .unsatisfied)
    }

    private func setConditions(isBad: Bool) {
        guard let attached = world.attached else { return }
        let conditions =
            isBad
            ? LinkConditions(
                loss: random.nextDouble() * 0.7, duplication: random.nextDouble() * 0.2,
                corruption: random.nextDouble() * 0.1,
                delay: .milliseconds(5) ... .milliseconds(random.int(in: 50...4_000)))
            : LinkConditions(
                loss: random.nextDouble() * (configuration.connectivity.pingAddress == nil ? 0.003 : 0.03),
                duplication: random.nextDouble() * 0.05,
                delay: .milliseconds(5) ... .milliseconds(random.int(in: 10...400)))
        world.networks[attached].conditions = conditions
    }

    private func start() {
        guard !isStarting else { return }
        isStarting = true
        figures.starts += 1
        if policy == .everything { mustHold = true }
        Task {
            do {
                try await host.runner.start(configuration, leakPolicy: policy, profileID: "phone")
                note { "start: up" }
            } catch {
                note { "start: \(error)" }
                // A failed start leaves nothing behind; the user tries again.
                mustHold = false
                scheduleRetry()
            }
            isStarting = false
        }
    }

    /// The system tries again for a user who wants the tunnel.
    func scheduleRetry() {
        guard wantsTunnel, !hasRetry else { return }
        hasRetry = true
        schedule(.retry, in: .seconds(random.int(in: 2...30)))
    }

    func stop() {
        wantsTunnel = false
        let number = nextStop
        nextStop += 1
        stopsBegun[number] = world.now
        Task {
            await host.stop(.userInitiated)
            stopsBegun[number] = nil
            mustHold = false
            note { "stop: done" }
        }
    }

    private func reconfigure() {
        var changed = configuration
        changed.mtu = 1280 + random.int(in: 0...100)
        let message = ReconfigureRequest(configuration: changed)
        pendingReconfigurations += 1
        Task {
            defer { pendingReconfigurations -= 1 }
            do {
                _ = try await MessageClient(channel: host, clock: world.clock).send(message)
                note { "reconfigured" }
            } catch {
                note { "reconfiguring: \(error)" }
            }
        }
    }
}
