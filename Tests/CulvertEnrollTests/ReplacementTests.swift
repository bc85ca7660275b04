// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Foundation
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

@testable import culvert_enroll

@Suite("Replacing a profile by a new device", .timeLimit(.minutes(1)))
struct ReplacementTests {
    private let scene: EnrolScene
    /// A second invitation of the same gateway.
    private let second: Invitation

    init() throws {
        scene = try EnrolScene()
        var random = SeededGenerator(seed: 52)
        let first = scene.invitation
        second = try Invitation(
            host: "new.example.com", token: BearerSecret(.invitation, using: &random), expires: first.expires,
            pins: first.pins, gateway: first.gateway)
    }

    /// The files of the only profile.
    private struct Files: Equatable {
        var profile: TunnelProfile
        var secrets: [String: DeviceEnrolment]

        init(_ folder: URL) throws {
            let profiles = folder.appending(path: "profiles")
            let files = try FileManager.default.contentsOfDirectory(atPath: profiles.path)
                .filter { $0.hasSuffix(".json") }
            let file = try #require(files.first)
            profile = try JSONDecoder().decode(
                TunnelProfile.self, from: try Data(contentsOf: profiles.appending(path: file)))
            secrets = try Self.secrets(of: profile.id, in: folder)
        }

        /// The enrolments in the secrets of a profile.
        static func secrets(of id: String, in folder: URL) throws -> [String: DeviceEnrolment] {
            let inner = folder.appending(path: "secrets/\(id)")
            var secrets: [String: DeviceEnrolment] = [:]
            for name in try FileManager.default.contentsOfDirectory(atPath: inner.path) {
                let bytes = [UInt8](try Data(contentsOf: inner.appending(path: name)))
                secrets[name] = try DeviceEnrolment(SecretBytes(bytes))
            }
            return secrets
        }

        /// The enrolment that the profile uses.
        var used: DeviceEnrolment? {
            get throws {
                let configuration: EnrolledTunnelConfiguration = try profile.configuration.decode()
                return secrets[configuration.secretName]
            }
        }
    }

    /// The requests, and the files at the time of each.
    private final class Seen: Sendable {
        let requests = Mutex<[EnrolmentRequest]>([])
        let files = Mutex<[Files]>([])
    }

    /// Records each request and the files at that time, and then answers.
    private func watch(_ answer: @escaping ScriptedGateway.Answer) -> Seen {
        let (seen, folder) = (Seen(), scene.folder)
        scene.gateway.set { (request) throws(ProvisioningTransportError) in
            guard let enrolment = try? EnrolmentRequest(body: request.body ?? []), let files = try? Files(folder) else {
                throw .unsupported("there is no request or no profile")
            }
            seen.requests.withLock { $0.append(enrolment) }
            seen.files.withLock { $0.append(files) }
            return try answer(request)
        }
        return seen
    }

    private static let silence: ScriptedGateway.Answer = { (_) throws(ProvisioningTransportError) in
        throw .unreachable("the reply was lost")
    }

    @Test("A profile stays unchanged while the gateway cannot be reached, and a repetition sends the same request")
    func unreachable() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        let seen = watch(Self.silence)
        #expect(
            await scene.enrol(second, name: "office", replaces: true, within: .seconds(3))
                == ExitStatus.unreachable)
        var after = try Files(scene.folder)
        #expect(after.profile == before.profile)
        #expect(try after.used == before.used && before.used != nil)
        #expect(scene.captured.error.contains("the profile 'office' is unchanged"))
        #expect(scene.captured.error.contains("run the command again"))
        #expect(!scene.captured.error.contains("is kept") && !scene.captured.error.contains("culvert up"))

        let first = try #require(seen.requests.withLock { $0.first })
        let again = watch(EnrolScene.accepting(scene.serverKey))
        #expect(await scene.enrol(second, name: "office", replaces: true) == 0, "\(scene.captured.error)")
        #expect(again.requests.withLock { $0 } == [first])
        after = try Files(scene.folder)
        let used = try #require(try after.used)
        #expect(used.privateKey.publicKey == first.publicKey && used.credential == first.credential)
        #expect(used.token == nil && used.grant != nil)
        #expect(after.secrets.count == 1 && after.profile.serverAddress == "new.example.com:8443")
        #expect(after.profile.id == before.profile.id)
    }

    @Test("An answer of another server leaves the old key and credential")
    func untrusted() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        scene.gateway.set { (_) throws(ProvisioningTransportError) in throw .untrusted("no pin matches") }
        #expect(
            await scene.enrol(second, name: "office", replaces: true, within: .seconds(3))
                == ExitStatus.unreachable)
        let after = try Files(scene.folder)
        #expect(try after.profile == before.profile && after.used == before.used)
        #expect(scene.captured.error.contains("no pin matches") && scene.captured.error.contains("is unchanged"))
    }

    @Test("A refusal removes the new key, and leaves the profile and its secrets")
    func refused() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        let seen = watch { (_) throws(ProvisioningTransportError) in ScriptedGateway.problem(.invitationUsed) }
        #expect(await scene.enrol(second, name: "office", replaces: true) == ExitStatus.failure)
        #expect(seen.requests.withLock { $0.count } == 1)
        #expect(try Files(scene.folder) == before)
        #expect(scene.captured.error.contains("used already") && scene.captured.error.contains("is unchanged"))
    }

    @Test("A crash at any point of a replacement leaves one usable profile")
    func crash() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        let seen = watch(EnrolScene.accepting(scene.serverKey))
        #expect(await scene.enrol(second, name: "office", replaces: true) == 0, "\(scene.captured.error)")
        let after = try Files(scene.folder)

        // During the request, the old profile has its secret, and the new secret is another file.
        let during = try #require(seen.files.withLock { $0.first })
        #expect(try during.profile == before.profile && during.used == before.used)
        let request = try #require(seen.requests.withLock { $0.first })

        // After the profile's file was replaced and before any secret was changed, the profile uses the secret of the request: the
        // next start sends the same request, and the gateway gives the same answer.
        var between = during
        between.profile = after.profile
        let begun = try #require(try between.used)
        #expect(begun.token == second.token)
        #expect(begun.privateKey.publicKey == request.publicKey && begun.credential == request.credential)

        let used = try #require(try after.used)
        #expect(used.privateKey == begun.privateKey && used.credential == begun.credential && used.grant != nil)
        #expect(after.secrets.count == 1)
        // The next replacement has a free name again.
        #expect(await scene.enrol(name: "office", replaces: true) == 0)
        #expect(try Files(scene.folder).secrets.count == 1)
    }

    @Test("A profile's secrets stay unchanged if its file cannot be replaced, and a repetition sends the same request")
    func unwritable() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        let file = scene.folder.appending(path: "profiles/\(before.profile.id).json")
        let aside = scene.folder.appending(path: "profile-before")
        let accept = EnrolScene.accepting(scene.serverKey)
        let seen = watch { (request) throws(ProvisioningTransportError) in
            do {
                // No file can replace a folder, not even for root.
                try FileManager.default.moveItem(at: file, to: aside)
                try FileManager.default.createDirectory(
                    at: file.appending(path: "inner"), withIntermediateDirectories: true)
            } catch {
                throw .unsupported("the profile cannot be moved: \(error)")
            }
            return try accept(request)
        }
        #expect(await scene.enrol(second, name: "office", replaces: true) == ExitStatus.failure)
        #expect(scene.captured.error.contains("the profile 'office' is unchanged"))
        #expect(scene.captured.error.contains("run the command again"))
        let first = try #require(seen.requests.withLock { $0.first })
        let secrets = try Files.secrets(of: before.profile.id, in: scene.folder)
        #expect(secrets.filter { before.secrets[$0.key] != nil } == before.secrets)
        let added = secrets.filter { before.secrets[$0.key] == nil }.values
        let begun = try #require(added.first)
        #expect(added.count == 1 && begun.token == second.token && begun.grant == nil)
        #expect(begun.privateKey.publicKey == first.publicKey && begun.credential == first.credential)

        try FileManager.default.removeItem(at: file)
        try FileManager.default.moveItem(at: aside, to: file)
        #expect(try Files(scene.folder).profile == before.profile)
        let again = watch(accept)
        #expect(await scene.enrol(second, name: "office", replaces: true) == 0, "\(scene.captured.error)")
        #expect(again.requests.withLock { $0 } == [first])
        let after = try Files(scene.folder)
        let used = try #require(try after.used)
        #expect(used.privateKey == begun.privateKey && used.credential == begun.credential && used.grant != nil)
        #expect(after.secrets.count == 1)
    }

    @Test("A second replacement at the same time is refused, and changes nothing")
    func concurrent() async throws {
        defer { scene.clean() }
        #expect(await scene.enrol(name: "office") == 0)
        let before = try Files(scene.folder)
        let lock = try scene.tool().replacementLock()
        #expect(await scene.enrol(second, name: "office", replaces: true) != 0)
        #expect(scene.captured.error.contains("another program is replacing a profile"))
        #expect(scene.gateway.asked.count == 1)
        #expect(try Files(scene.folder) == before)
        SystemCall.close(lock)
        #expect(await scene.enrol(second, name: "office", replaces: true) == 0, "\(scene.captured.error)")
        #expect(try Files(scene.folder).secrets.count == 1)
    }

    @Test("A pending profile that is replaced with the same invitation keeps its key")
    func sameInvitation() async throws {
        defer { scene.clean() }
        scene.gateway.set(Self.silence)
        #expect(await scene.enrol(name: "office", within: .seconds(3)) == ExitStatus.unreachable)
        let before = try #require(try Files(scene.folder).used)
        scene.gateway.set(EnrolScene.accepting(scene.serverKey))
        #expect(await scene.enrol(name: "office", replaces: true) == 0, "\(scene.captured.error)")
        let after = try #require(try Files(scene.folder).used)
        #expect(after.privateKey == before.privateKey && after.credential == before.credential && after.grant != nil)
    }
}
