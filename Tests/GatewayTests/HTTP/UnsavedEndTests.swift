// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import PacketTunnel
import PacketTunnelLinux
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite("The API of a gateway whose database refuses writes") struct UnsavedEndTests {
    @Test(
        "A revoked and a disabled device get status 202, are shown as disabled and not saved, and are named by /ready")
    func replies() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let anna = try await bench.user("anna")
            let (one, two) = (try await bench.enrol(anna), try await bench.enrol(anna))
            try await bench.store.refuseWrites(true)
            let revoked = try await bench.ask("DELETE", "/v1/devices/\(one.id)", bearer: admin)
            #expect(revoked.status == 202)
            #expect(revoked.json["isDone"] == .bool(true) && revoked.json["isSaved"] == .bool(false))
            #expect(revoked.json["detail"]?.text?.contains("not saved yet") == true)
            let disabled = try await bench.ask(
                "PATCH", "/v1/devices/\(two.id)", bearer: admin, #"{"isEnabled":false}"#)
            #expect(disabled.status == 202)
            #expect(disabled.json["isEnabled"] == .bool(false) && disabled.json["isSaved"] == .bool(false))
            let user = try await bench.ask("PATCH", "/v1/users/\(anna)", bearer: admin, #"{"isEnabled":false}"#)
            #expect(user.status == 202 && user.json["isSaved"] == .bool(false))
            let list = try await bench.ask("GET", "/v1/devices", bearer: admin)
            #expect(list.json["items"]?.list?.allSatisfy { $0["isEnabled"] == .bool(false) } == true)
            // The device itself is refused.
            #expect(try await bench.ask("GET", EnrolmentPath.device, on: .device, bearer: one.credential).status == 401)
            let shown = bench.service.unsaved.map(\.what)
            #expect(shown.count == 4 && shown[0].hasPrefix("the database refuses writes: "))
            #expect(
                shown[1].hasPrefix("device \(one.id) is revoked") && shown[2].hasPrefix("device \(two.id) is disabled"))
            func value(_ name: String) -> Double? {
                bench.service.unsavedFamilies.first { $0.name == name }?.samples.first?.value
            }
            #expect(value("culvert_gateway_unsaved_ends") == 3)
            #expect(value("culvert_gateway_database_refuses_writes_since_timestamp_seconds") != nil)

            try await bench.store.refuseWrites(false)
            try await bench.service.sweep(.gateway)
            #expect(bench.service.unsaved.isEmpty && value("culvert_gateway_unsaved_ends") == 0)
            #expect(value("culvert_gateway_database_refuses_writes_since_timestamp_seconds") == nil)
            #expect(try await bench.ask("GET", "/v1/devices/\(one.id)", bearer: admin).status == 404)
            let saved = try await bench.ask("GET", "/v1/devices/\(two.id)", bearer: admin)
            #expect(saved.json["isEnabled"] == .bool(false) && saved.json["isSaved"] == nil)
        }
    }

    @Test("A change that disables and renames a device is refused; the reply says that the disabling is in effect")
    func onlyDisabled() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let device = try await bench.enrol(try await bench.user("anna"))
            let path = "/v1/devices/\(device.id)"
            try await bench.store.refuseWrites(true)
            let refused = try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":false,"name":"new"}"#)
            #expect(refused.status == 503 && refused.code == "unavailable")
            #expect(refused.json["detail"]?.text?.contains("the other changes were not made") == true)
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(false))
            try await bench.store.refuseWrites(false)
            try await bench.service.sweep(.gateway)
            let saved = try await bench.ask("GET", path, bearer: admin)
            #expect(saved.json["isEnabled"] == .bool(false) && saved.json["name"]?.text == "phone")
        }
    }

    @Test("Enabling a device takes back a disabling that is not saved, once the database accepts writes")
    func enabled() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let device = try await bench.enrol(try await bench.user("anna"))
            let path = "/v1/devices/\(device.id)"
            try await bench.store.refuseWrites(true)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":false}"#).status == 202)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":true}"#).status == 503)
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(false))
            try await bench.store.refuseWrites(false)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":true}"#).status == 200)
            try await bench.service.sweep(.gateway)
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(true))
            #expect(bench.service.unsaved.isEmpty)
        }
    }

    @Test("An unknown device is not found, and nothing is left of the request")
    func unknown() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/devices/\(String(repeating: "a", count: 26))"
            #expect(try await bench.ask("DELETE", path, bearer: admin).status == 404)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":false}"#).status == 404)
            #expect(bench.service.denials == AccessDenials() && bench.service.unsaved.isEmpty)
        }
    }

    @Test("A hundred failed writes are a few lines of the log, and the end of the process names the unsaved revocation")
    func log() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let device = try await bench.enrol(try await bench.user("anna"))
            try await bench.store.refuseWrites(true)
            let id = try #require(DeviceID(device.id))
            for _ in 0..<100 {
                #expect(try await !bench.service.removeDevice(id, .local(0)))
                _ = try? await bench.service.sweep(.gateway)
            }
            #expect(bench.log.text.split(separator: "\n").count { $0.hasPrefix("error") } <= 5)
            await bench.service.finish()
            #expect(
                bench.log.text.contains("critical not saved, and undone by the next start: device \(id) is revoked"))
        }
    }
}
