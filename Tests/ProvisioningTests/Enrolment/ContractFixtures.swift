// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

@testable import Provisioning

/// Messages of the API with every member, and a device's keys.
struct ContractFixtures {
    let key: PrivateKey
    let serverKey: PrivateKey
    let credential: BearerSecret
    let grant: EnrolmentGrant

    init(seed: UInt64 = 7) throws {
        var random = SeededGenerator(seed: seed)
        key = PrivateKey(using: &random)
        serverKey = PrivateKey(using: &random)
        credential = BearerSecret(.device, using: &random)
        let time = Date(timeIntervalSince1970: 1_780_000_000)
        grant = EnrolmentGrant(
            device: .init(
                id: RandomID(using: &random), name: "anna's phone", user: "anna", publicKey: key.publicKey,
                createdAt: time, expiresInSeconds: 86_400),
            addresses: [.v4(10, 66, 0, 2), try IPAddress("fd00::2")],
            servers: [
                .init(
                    publicKey: serverKey.publicKey,
                    endpoints: ["vpn.example.com:51820", "[2001:db8::1]:51820"].compactMap {
                        try? EndpointAddress($0)
                    },
                    notAfterSeconds: 3600)
            ],
            dns: [.v4(10, 66, 0, 1)], searchDomains: ["corp.example"], routes: [.allIPv4, .allIPv6],
            presharedKey: PresharedKey(using: &random), renewAfterSeconds: 1800, serverTime: time)
    }
}
