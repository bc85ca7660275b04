// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting

// The actions of the phone's user, and the events of its surroundings.
extension PhoneDay {
    /// Plans the first minute: the tunnel starts at home.
    func plan() {
        schedule(.start, at: .seconds(1))
        planSession()
    }

    private func seconds(_ range: ClosedRange<Int>) -> Duration { .milliseconds(random.int(in: range) * 1_000 + 7) }

    /// Plans the time from now until the phone wakes up next.
    func planSession() {
        let draw = random.nextDouble()
        let length =
            switch draw {
            case ..<0.60: seconds(20...120)
            case ..<0.88: seconds(120...500)
            case ..<0.985: seconds(600...1_200)
            default: seconds(3_600...9_000)
            }
        let start = world.now
        let end = start + length
        let hour = start / .seconds(3_600)
        let isNight = hour < 6 || hour > 22.5
        let rest = random.chance(0.1) ? seconds(2...40) : isNight ? seconds(3_600...14_400) : seconds(300...5_400)
        schedule(.sleep(announced: random.chance(0.85)), at: end)
        schedule(.wake, at: end + seconds(1...6) + rest)
        // The network that the phone is on now, and when the provider learns of it.
        if start > .zero, random.chance(0.5) {
            move(at: start, announcedAfter: random.chance(0.5) ? .zero : seconds(0...3))
        }
        // A session this long is mostly idle; a program rarely sends data.
        let count = length > .seconds(1_600) ? 0 : random.int(in: 0...6)
        for _ in 0..<count { plan(at: start + fraction(of: length)) }
        let bursts = random.int(in: 0...(length > .seconds(1_600) ? 12 : 5))
        for _ in 0..<bursts { schedule(.burst(random.int(in: 1...12)), at: start + fraction(of: length)) }
        if random.chance(0.4) { planAsleep(from: end + .seconds(6), lasting: rest) }
    }

    private func fraction(of length: Duration) -> Duration {
        .milliseconds(random.int(in: 0...Int(length / .milliseconds(1))))
    }

    private func move(at time: Duration, announcedAfter delay: Duration) {
        let draw = random.nextDouble()
        schedule(.attach(draw < 0.08 ? nil : random.int(in: 0...3), announcedAfter: delay), at: time)
    }

    /// Plans one event while the phone is awake.
    private func plan(at time: Duration) {
        switch random.int(in: 0..<100) {
        case 0..<22:
            // To another network, often with none in between.
            if random.chance(0.6) {
                schedule(.attach(nil, announcedAfter: .zero), at: time)
                move(at: time + seconds(0...8), announcedAfter: random.chance(0.7) ? .zero : seconds(0...2))
            } else {
                move(at: time, announcedAfter: random.chance(0.7) ? .zero : seconds(0...2))
            }
        case 22..<28:
            // At the edge of two networks.
            for step in 0..<random.int(in: 2...8) {
                schedule(
                    .attach(random.chance(0.5) ? 0 : 1, announcedAfter: .zero),
                    at: time + .seconds(step * random.int(in: 1...40)))
            }
        case 28..<33:
            // Airplane mode.
            schedule(.attach(nil, announcedAfter: .zero), at: time)
            move(at: time + seconds(10...900), announcedAfter: .zero)
        case 33..<38:
            schedule(.attach(3, announcedAfter: .zero), at: time)
            schedule(.logIn, at: time + seconds(5...300))
        case 38..<50:
            schedule(.setConditions(bad: true), at: time)
            schedule(.setConditions(bad: false), at: time + seconds(5...240))
        case 50..<58:
            schedule(.cut(true), at: time)
            schedule(.cut(false), at: time + seconds(2...400))
        case 58..<63: schedule(.forgetMappings, at: time)
        case 63..<68: schedule(.serverUp(restarted: true), at: time)
        case 68..<74:
            schedule(.serverDown, at: time)
            schedule(.serverUp(restarted: random.chance(0.7)), at: time + seconds(2...400))
        case 74..<79: planMove(at: time)
        case 79..<86:
            schedule(.mood(random.int(in: 1...3)), at: time)
            schedule(.mood(0), at: time + seconds(5...200))
        case 86..<91:
            schedule(.stop, at: time)
            if random.chance(0.3) { schedule(.stop, at: time + .milliseconds(random.int(in: 0...50))) }
            schedule(.start, at: time + seconds(0...120))
        case 91..<95: schedule(.reconfigure, at: time)
        default:
            // The system reports the same path again.
            for step in 0..<random.int(in: 1...5) { schedule(.announcePath, at: time + .milliseconds(step * 300)) }
        }
    }

    private func planMove(at time: Duration) {
        schedule(.serverMoves, at: time)
        schedule(.publish, at: time + seconds(0...240))
    }

    /// Plans the events outside the phone while it sleeps.
    private func planAsleep(from time: Duration, lasting rest: Duration) {
        let time = time + fraction(of: rest)
        switch random.int(in: 0..<4) {
        case 0: schedule(.serverUp(restarted: true), at: time)
        case 1: planMove(at: time)
        case 2: schedule(.forgetMappings, at: time)
        default: move(at: time, announcedAfter: .zero)
        }
    }
}
