// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import Provisioning
import Testing
import TunnelSystem

@testable import Gateway

/// Measurements, with CULVERT_GATEWAY_LOAD=1.
@Suite(
    .serialized, .enabled(if: ProcessInfo.processInfo.environment["CULVERT_GATEWAY_LOAD"] != nil, "runs in make soak"))
struct StoreLoadTests {
    @Test("10,000 enrolments in a row, 1,000 concurrent ones and a list of all peers succeed in a file")
    func enrolments() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            let fixture = StoreFixture(store)
            let anna = try await fixture.user(limit: 100_000)
            let limits = try fixture.limits(["10.66.0.1/16", "fd66::1/64"])
            let token = Token(
                id: fixture.id(), scope: .enrol, userID: anna.id, name: "t", hash: fixture.hash(), hint: "",
                createdAt: fixture.start, expiresAt: nil)
            _ = try await store.add(token, slot: nil, limits, nil, fixture.audit())
            let enrolments = try (0..<11_000).map { _ in try fixture.enrolment(.token(token.hash), limits: limits) }
            let clock = ContinuousClock()
            var times: [Duration] = []
            let row = try await clock.measure {
                for enrolment in enrolments[..<10_000] {
                    times.append(try await clock.measure { _ = try fixture.made(try await store.enrol(enrolment)) })
                }
            }
            times.sort()
            let atOnce = try await clock.measure {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for enrolment in enrolments[10_000...] {
                        group.addTask { _ = try fixture.made(try await store.enrol(enrolment)) }
                    }
                    try await group.waitForAll()
                }
            }
            let all = try await clock.measure { _ = try await store.peers(after: nil) }
            let activity = try await store.devices(of: anna.id, PageRequest(limit: 500)).items.map {
                DeviceActivity(deviceID: $0.id, traffic: Device.Traffic(received: 1, sent: 1))
            }
            let counters = try await clock.measure { try await store.record(activity) }
            let bytes = FileStatus(of: "\(folder)/gateway.db")?.size ?? 0
            SystemCall.writeAll(
                1,
                Array(
                    """
                    load: store: 10,000 enrolments in a row: \(row), median \(times[5000]), 99th \(times[9900]), longest \(times[9999])
                    load: store: 1,000 at once: \(atOnce)
                    load: store: all \(enrolments.count) peers: \(all)
                    load: store: counters of 500 devices: \(counters)
                    load: store: the file: \(bytes) bytes

                    """.utf8))
            #expect(try await store.counts(at: fixture.start).devices == 11_000)
            try store.close()
        }
    }
}
