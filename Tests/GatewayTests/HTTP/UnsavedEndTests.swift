// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelLinux
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite("The API of a gateway whose database refuses writes") struct UnsavedEndTests {
    @Test(
        "A revoked and a disabled device get status 202, are shown as disabled and not saved, and are listed by /ready")
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

    @Test("A change that disables and renames a device is refused; the reply reports that the disabling is in effect")
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

    @Test("A revocation that the database always refuses does not keep a later one from being saved")
    func oneFails() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (admin, one, two) = try await bench.unsavedRevocations()
            for _ in 0..<2 { try await bench.service.sweep(.gateway) }
            #expect(try await bench.ask("GET", "/v1/devices/\(two.id)", bearer: admin).status == 404)
            let ends = bench.service.unsaved.map(\.what).filter { $0.hasSuffix("a restart would undo it") }
            #expect(ends.count == 1 && ends.first?.hasPrefix("device \(one.id) is revoked") == true)
        }
    }

    @Test("Enabling a device cancels an unsaved disabling once the database accepts writes")
    func enabled() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (admin, _, path) = try await bench.unsavedDisabling()
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":true}"#).status == 503)
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(false))
            try await bench.store.refuseWrites(false)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":true}"#).status == 200)
            try await bench.service.sweep(.gateway)
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(true))
            #expect(bench.service.unsaved.isEmpty)
        }
    }

    @Test("A disabling that is in effect but not saved persists after a later request with a conflict")
    func conflict() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (admin, device, path) = try await bench.unsavedDisabling()
            let id = try #require(DeviceID(device.id))
            let audit = AuditRecord(
                at: bench.service.now, actor: "test", source: nil, action: .deviceChanged, subject: "device",
                details: [:])
            await #expect(throws: GatewayError.self) {
                _ = try await bench.service.endAccess(.disabledDevice(id), audit) {
                    () throws(GatewayError) -> Bool in throw .loginInUse("ben")
                }
            }
            #expect(try await bench.ask("GET", path, bearer: admin).json["isEnabled"] == .bool(false))
        }
    }

    @Test("A renamed device or user whose disabling is not saved is reported as disabled and not saved")
    func renamed() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let anna = try await bench.user("anna")
            let device = try await bench.enrol(anna)
            let paths = ["/v1/devices/\(device.id)", "/v1/users/\(anna)"]
            try await bench.store.refuseWrites(true)
            for path in paths {
                #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":false}"#).status == 202)
            }
            try await bench.store.refuseWrites(false)
            for path in paths {
                let renamed = try await bench.ask("PATCH", path, bearer: admin, #"{"name":"new"}"#)
                #expect(renamed.status == 202 && renamed.json["name"]?.text == "new")
                #expect(renamed.json["isEnabled"] == .bool(false) && renamed.json["isSaved"] == .bool(false))
            }
        }
    }

    @Test("A revoked token, slot and invitation and a removed password end before they are saved, with status 202")
    func secrets() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (service, admin) = (bench.service, try await bench.token(.admin))
            let anna = try await bench.user("anna")
            let reader = try await service.addToken(TokenDraft(scope: .readOnly, name: "reader"), .local(0))
            let maker = try await service.addToken(TokenDraft(scope: .enrol, userID: anna, name: "maker"), .local(0))
            let slot = try await service.addToken(TokenDraft(scope: .addKey, userID: anna, name: "slot"), .local(0))
            let invitation = try await service.addInvitation(InvitationDraft(userID: anna), .local(0))
            let password = Array("correct horse battery".utf8)
            _ = try await service.setPassword(of: anna, password, .local(0))
            let slotDevice = try #require(slot.item.deviceID)
            var random = RandomSource()
            let key = PrivateKey(using: &random).publicKey
            let home = IPAddress.v4(192, 0, 2, 7)
            _ = try await service.addKey(token: slot.secret.exportedText, publicKey: key, from: home)

            try await bench.store.refuseWrites(true)
            for (path, member) in [
                ("tokens/\(reader.item.id)", "revokedAt"), ("tokens/\(maker.item.id)", "revokedAt"),
                ("tokens/\(slot.item.id)", "revokedAt"), ("invitations/\(invitation.item.id)", "revokedAt"),
                ("users/\(anna)/password", "hasPassword"),
            ] {
                let reply = try await bench.ask("DELETE", "/v1/\(path)", bearer: admin)
                #expect(reply.status == 202 && reply.json["isSaved"] == .bool(false), "\(path): \(reply.body)")
                #expect(reply.json[member] != nil && reply.json[member] != .bool(true), "\(path): \(reply.body)")
            }
            let shown = service.unsaved.map(\.what).filter { $0.contains("in effect but not saved") }
            #expect(shown.count == 5)
            #expect(shown.contains { $0.hasPrefix("token \(reader.item.id) is revoked") })
            #expect(shown.contains { $0.hasPrefix("invitation \(invitation.item.id) is revoked") })
            #expect(shown.contains { $0.hasPrefix("the password of user \(anna) is removed") })
            for list in ["tokens", "invitations"] {
                let items = try #require(try await bench.ask("GET", "/v1/\(list)", bearer: admin).json["items"]?.list)
                #expect(items.count { $0["isSaved"] == .bool(false) } == (list == "tokens" ? 3 : 1))
            }

            // The store still contains all of them and would accept them.
            try await bench.store.refuseWrites(false)
            func expectRefused() async throws {
                await #expect(throws: GatewayError.tokenExpired) {
                    _ = try await service.caller(bearer: reader.secret.exportedText, from: home)
                }
                for (secret, error) in [
                    (maker.secret, GatewayError.tokenExpired), (invitation.secret, .invitationRevoked),
                ] {
                    let request = EnrolmentRequest(
                        publicKey: PrivateKey(using: &random).publicKey,
                        credential: BearerSecret(.device, using: &random))
                    await #expect(throws: error) {
                        _ = try await service.enrol(bearer: secret.exportedText, request, from: home)
                    }
                }
                await #expect(throws: GatewayError.tokenExpired) {
                    _ = try await service.addKey(token: slot.secret.exportedText, publicKey: key, from: home)
                }
                let login = LoginRequest(
                    login: "anna", password: SecretBytes(password), source: try Endpoint("192.0.2.7:4000"), busy: [])
                #expect(try await service.logIn(login, .gateway) == .refused(.wrong))
            }
            try await expectRefused()
            #expect(service.denials.devices == [slotDevice] && service.denials.passwords == [anna])
            try await service.sweep(.gateway)
            #expect(service.unsaved.isEmpty && service.denials == AccessDenials())
            try await expectRefused()
            let actions = try await service.audit(AuditFilter(), PageRequest(limit: 500), .local(0)).items
                .map(\.record.action)
            #expect(actions.count { $0 == .tokenRevoked } == 3 && actions.count { $0 == .invitationRevoked } == 1)
            #expect(try await bench.ask("GET", "/v1/devices/\(slotDevice)", bearer: admin).status == 404)
            #expect(
                try await service.tokens(PageRequest(), .local(0)).items.count { $0.revokedAt != nil && $0.isSaved }
                    == 3)
        }
    }

    @Test(
        "A changed password ends the old one before it is saved, with status 202; the new one is valid once saved"
    )
    func changedPassword() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (service, admin) = (bench.service, try await bench.token(.admin))
            let anna = try await bench.user("anna")
            let (old, new) = ("correct horse battery", "another horse battery")
            func set(_ password: String) async throws -> APIBench.Reply {
                try await bench.ask(
                    "PUT", "/v1/users/\(anna)/password", bearer: admin, #"{"password":"\#(password)"}"#)
            }
            func logIn(_ password: String) async throws -> LoginJudgement {
                try await service.logIn(
                    LoginRequest(
                        login: "anna", password: SecretBytes(Array(password.utf8)),
                        source: try Endpoint("192.0.2.7:4000"), busy: []), .gateway)
            }
            #expect(try await set(old).status == 200)
            try await bench.store.refuseWrites(true)
            for password in ["a third horse battery", new] {
                let reply = try await set(password)
                #expect(reply.status == 202 && reply.json["isSaved"] == .bool(false))
                #expect(reply.json["hasPassword"] == .bool(true))
            }
            #expect(service.denials.passwords == [anna])
            let shown = service.unsaved.map(\.what).filter { $0.contains("in effect but not saved") }
            #expect(shown.count == 1 && shown.first?.hasPrefix("the password of user \(anna) is changed") == true)

            // The store still has the old password.
            try await bench.store.refuseWrites(false)
            #expect(try await logIn(old) == .refused(.wrong))
            #expect(try await logIn(new) == .refused(.changed))
            #expect(bench.log.text.contains("the new password is not saved yet"), "\(bench.log.text)")
            try await service.sweep(.gateway)
            #expect(service.unsaved.isEmpty && service.denials == AccessDenials())
            #expect(try await logIn(old) == .refused(.wrong))
            guard case .accepted = try await logIn(new) else {
                Issue.record("the new password was refused")
                return
            }
            #expect(try await bench.ask("GET", "/v1/users/\(anna)", bearer: admin).json["isSaved"] == nil)
        }
    }

    @Test("The removal of a password replaces an unsaved change")
    func removedAfterChange() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let anna = try await bench.user("anna")
            let (path, body) = ("/v1/users/\(anna)/password", #"{"password":"correct horse battery"}"#)
            #expect(try await bench.ask("PUT", path, bearer: admin, body).status == 200)
            try await bench.store.refuseWrites(true)
            #expect(try await bench.ask("PUT", path, bearer: admin, body).status == 202)
            let removed = try await bench.ask("DELETE", path, bearer: admin)
            #expect(removed.status == 202 && removed.json["hasPassword"] == .bool(false))
            try await bench.store.refuseWrites(false)
            for _ in 0..<2 { try await bench.service.sweep(.gateway) }
            #expect(bench.service.unsaved.isEmpty && bench.service.denials == AccessDenials())
            let saved = try await bench.ask("GET", "/v1/users/\(anna)", bearer: admin)
            #expect(saved.json["hasPassword"] == .bool(false) && saved.json["isSaved"] == nil)
        }
    }

    @Test("A new password replaces an unsaved removal once the database accepts writes")
    func newPassword() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let anna = try await bench.user("anna")
            let (path, body) = ("/v1/users/\(anna)/password", #"{"password":"correct horse battery"}"#)
            #expect(try await bench.ask("PUT", path, bearer: admin, body).json["hasPassword"] == .bool(true))
            try await bench.store.refuseWrites(true)
            #expect(try await bench.ask("DELETE", path, bearer: admin).json["hasPassword"] == .bool(false))
            #expect(try await bench.ask("PUT", path, bearer: admin, body).status == 503)
            let user = try await bench.ask("GET", "/v1/users/\(anna)", bearer: admin)
            #expect(user.json["hasPassword"] == .bool(false) && user.json["isEnabled"] == .bool(true))
            try await bench.store.refuseWrites(false)
            let set = try await bench.ask("PUT", path, bearer: admin, body)
            #expect(set.status == 200 && set.json["hasPassword"] == .bool(true))
            try await bench.service.sweep(.gateway)
            let saved = try await bench.ask("GET", "/v1/users/\(anna)", bearer: admin)
            #expect(saved.json["hasPassword"] == .bool(true) && saved.json["isSaved"] == nil)
        }
    }

    @Test("An unknown device is not found, and its request has no effect")
    func unknown() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/devices/\(String(repeating: "a", count: 26))"
            #expect(try await bench.ask("DELETE", path, bearer: admin).status == 404)
            #expect(try await bench.ask("PATCH", path, bearer: admin, #"{"isEnabled":false}"#).status == 404)
            for other in ["tokens", "invitations", "users"] {
                let path = path.replacing("devices", with: other) + (other == "users" ? "/password" : "")
                #expect(try await bench.ask("DELETE", path, bearer: admin).status == 404)
            }
            #expect(bench.service.denials == AccessDenials() && bench.service.unsaved.isEmpty)
        }
    }

    @Test(
        "At the end of the process, revocations after one that the database refuses are saved, and that one is logged")
    func last() async throws {
        try await APIBench.use(isOnDisk: true) { bench in
            let (admin, one, two) = try await bench.unsavedRevocations()
            await bench.service.finish()
            #expect(try await bench.ask("GET", "/v1/devices/\(two.id)", bearer: admin).status == 404)
            let lost = bench.log.text.split(separator: "\n").filter { $0.hasPrefix("critical") }
            #expect(lost.count == 1 && lost.first?.contains("device \(one.id) is revoked") == true, "\(lost)")
        }
    }

    @Test("A hundred failed writes add few log lines, and the end of the process logs the unsaved revocation")
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
                bench.log.text.contains("critical not saved, will be undone by the next start: device \(id) is revoked")
            )
        }
    }
}

extension APIBench {
    /// Disables a device of a new user while the database refuses writes.
    fileprivate func unsavedDisabling() async throws -> (admin: String, device: Enrolled, path: String) {
        let admin = try await token(.admin)
        let device = try await enrol(try await user("anna"))
        let path = "/v1/devices/\(device.id)"
        try await store.refuseWrites(true)
        #expect(try await ask("PATCH", path, bearer: admin, #"{"isEnabled":false}"#).status == 202)
        return (admin, device, path)
    }

    /// Revokes two devices. The database always refuses the first, and accepts the second now.
    fileprivate func unsavedRevocations() async throws -> (admin: String, one: Enrolled, two: Enrolled) {
        let (admin, anna) = (try await token(.admin), try await user("anna"))
        let (one, two) = (try await enrol(anna), try await enrol(anna))
        try await store.connections.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE DELETE ON devices WHEN OLD.id = '\(one.id)'
                    BEGIN SELECT RAISE(ABORT, 'refused'); END
                    """)
        }
        #expect(try await ask("DELETE", "/v1/devices/\(one.id)", bearer: admin).status == 202)
        try await store.refuseWrites(true)
        #expect(try await ask("DELETE", "/v1/devices/\(two.id)", bearer: admin).status == 202)
        try await store.refuseWrites(false)
        return (admin, one, two)
    }
}
