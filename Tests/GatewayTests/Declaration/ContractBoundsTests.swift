// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite("Bounds of the device API") struct ContractBoundsTests {
    @Test("Each bound of an enrolment holds over HTTP")
    func enrolments() async throws {
        try await APIBench.use { bench in
            for field in EnrolmentRequest.message.schemaMembers(.create) {
                // Each enrolment has other samples of a key and of a credential.
                for value in FieldCase.all(field.schema) where value.name != "a sample" {
                    let invitation = try await bench.invitation(for: bench.newUser())
                    let (key, credential, _) = bench.enrolment()
                    var members: [String: JSON] = [
                        "publicKey": .string(key.publicKey.base64), "credential": .string(credential),
                    ]
                    members[field.name] = value.value
                    let reply = try await bench.ask(
                        "POST", EnrolmentPath.enrolments, on: .device, bearer: invitation, JSON.object(members).line)
                    let words = "\(field.name), \(value.name): \(reply.body)"
                    // An optional member can be null.
                    let isAccepted = value.isAccepted || value.value == .null && !field.isRequired
                    #expect(reply.status == (isAccepted ? 201 : 400), "\(words)")
                    if !isAccepted { #expect(reply.body.contains(#""\#(field.name): "#), "\(words)") }
                }
            }
        }
    }

    @Test("Each bound of a rotation holds over HTTP")
    func rotations() async throws {
        try await APIBench.use { bench in
            let device = try await bench.enrol(bench.newUser())
            let fields = RotationRequest.message.schemaMembers(.create)
            let sample = Dictionary(fields.map { ($0.name, FieldCase.sample($0.schema, 0)) }) { $1 }
            for field in fields {
                for value in FieldCase.all(field.schema) where !value.isAccepted {
                    var members = sample
                    members[field.name] = value.value
                    let reply = try await bench.ask(
                        "POST", EnrolmentPath.rotations, on: .device, bearer: device.credential,
                        JSON.object(members).line)
                    #expect(
                        reply.status == 400 && reply.body.contains(#""\#(field.name): "#),
                        "\(field.name), \(value.name): \(reply.body)")
                }
            }
        }
    }
}
