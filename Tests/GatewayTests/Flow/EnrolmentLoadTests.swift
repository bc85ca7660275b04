// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PinnedProvisioning
import Provisioning
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

/// With `CULVERT_GATEWAY_LOAD=1`, the tests enrol the largest number of devices of a gateway, and need an optimised
/// build.
@Suite("Load on a gateway's enrolment", .serialized, .timeLimit(.minutes(10)))
struct EnrolmentLoadTests {
    private static let isEarnest = ProcessEnvironment.value("CULVERT_GATEWAY_LOAD") == "1"

    @Test("Devices enrol in a row and concurrently from one address, each with separate addresses")
    func enrolments() async throws {
        let (inRow, atOnce) = Self.isEarnest ? (10_000, 1_000) : (30, 60)
        // Both ends of each connection are in this process.
        let descriptors = ctunnel_raise_descriptor_limit(16_384)
        try #require(!Self.isEarnest || descriptors > 4096, "the limit of descriptors is \(descriptors)")
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder) { settings in
                settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
                settings.devices = 20_000
            }
            let (servers, token) = try await scene.enrolmentToken(devices: 20_000)
            let client = EnrolmentClient(
                servers: servers, transport: PinnedProvisioningTransport(), deadline: .seconds(300))
            let clock = ContinuousClock()
            var (times, grants): ([Duration], [EnrolmentGrant]) = ([], [])
            var random = SystemRandomNumberGenerator()
            let requests = (0..<inRow + atOnce).map { _ in
                let device = DeviceEnrolment(token: token, using: &random)
                return EnrolmentRequest(publicKey: device.privateKey.publicKey, credential: device.credential)
            }
            let row = try await clock.measure {
                for request in requests[..<inRow] {
                    let start = clock.now
                    grants.append(try await client.enrol(request, with: token))
                    times.append(clock.now - start)
                }
            }
            let crowd = try await clock.measure {
                try await withThrowingTaskGroup(of: EnrolmentGrant.self) { group in
                    for request in requests[inRow...] {
                        group.addTask { try await client.enrol(request, with: token) }
                    }
                    for try await grant in group { grants.append(grant) }
                }
            }
            times.sort()
            #expect(Set(grants.map(\.device.id)).count == inRow + atOnce)
            #expect(Set(grants.flatMap(\.addresses)).count == 2 * (inRow + atOnce))
            #expect(await scene.waits(forPeers: inRow + atOnce))
            print(
                "load: \(inRow) devices enrolled in a row over TLS within \(row), each a median of \(times[inRow / 2]), 99 of 100 "
                    + "within \(times[inRow * 99 / 100]), the longest \(times[inRow - 1]); \(atOnce) at once within \(crowd)"
            )
            await scene.stop()
        }
    }
}
