// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import Foundation
import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing
import TrustPinningNIOTesting
import TrustPinningTesting
import WireGuardCore

@testable import culvert_enroll

@Suite("Enrolling from the command line", .timeLimit(.minutes(1)))
struct EnrolToolTests {
    private let scene: EnrolScene

    init() throws { scene = try EnrolScene() }

    private var folder: URL { scene.folder }
    private var captured: CapturedConsole { scene.captured }
    private var invitation: Invitation { scene.invitation }
    private var gateway: ScriptedGateway { scene.gateway }
    private var serverKey: PublicKey { scene.serverKey }
    private var tool: EnrolTool { scene.tool() }

    private func enrol(
        name: String? = nil, replaces: Bool = false, within deadline: Duration = .seconds(30)
    ) async -> Int32 { await scene.enrol(name: name, replaces: replaces, within: deadline) }

    private func kept(_ name: String) async throws -> (TunnelProfile, DeviceEnrolment)? { try await scene.kept(name) }

    private func clean() { scene.clean() }

    @Test("An invitation becomes a profile, whose secrets are in a file that only its owner can read")
    func enrols() async throws {
        defer { clean() }
        #expect(await enrol() == 0, "\(captured.error)")
        let (profile, enrolment) = try #require(await kept("example-office"))
        #expect(profile.provider == "enrolled" && profile.serverAddress == "vpn.example.com:8443")
        #expect(enrolment.token == nil && enrolment.grant?.device.user == "anna")
        let configuration: EnrolledTunnelConfiguration = try profile.configuration.decode()
        #expect(configuration.deviceID == enrolment.grant?.device.id)
        #expect(configuration.gateways[0].trust == .pins(invitation.pins))
        #expect(captured.output.contains("start it with 'culvert up example-office --directory \(folder.path)'"))
        let file = folder.appending(path: "secrets/\(profile.id)/enrolment").path
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let text = try String(
            contentsOf: folder.appending(path: "profiles/\(profile.id).json"), encoding: .utf8)
        for secret in [
            invitation.token.exportedText, enrolment.credential.exportedText, enrolment.privateKey.exportedBase64,
        ] {
            #expect(!text.contains(secret) && !captured.output.contains(secret))
        }
    }

    @Test("Without access to the folder of profiles, the invitation is not read")
    func noAccess() async throws {
        defer { clean() }
        // Not even root can use a file as the folder.
        try Data().write(to: folder)
        let (tool, invitation) = (tool, invitation)
        var isRead = false
        func read() -> Invitation {
            isRead = true
            return invitation
        }
        let status = await tool.reporting { () throws(EnrolProblem) in
            try await tool.enrol(read(), name: "office", deviceName: nil, replaces: false)
        }
        #expect(status != 0 && !isRead && captured.error.contains(folder.path))
        #expect(gateway.asked.isEmpty)
    }

    @Test("A gateway that cannot be reached leaves a profile that the next start enrols")
    func pending() async throws {
        defer { clean() }
        gateway.set { (_) throws(ProvisioningTransportError) in throw .unreachable("down") }
        #expect(await enrol(name: "office", within: .milliseconds(300)) == ExitStatus.unreachable)
        let (_, enrolment) = try #require(await kept("office"))
        #expect(enrolment.token == invitation.token)
        #expect(captured.error.contains("'culvert up office --directory \(folder.path)' enrols"))
        #expect(!captured.error.contains(invitation.token.exportedText))
    }

    @Test("A refusal leaves no new profile, and an existing profile unchanged")
    func refused() async throws {
        defer { clean() }
        #expect(await enrol(name: "office") == 0)
        let (_, before) = try #require(await kept("office"))
        #expect(await enrol(name: "office") == ExitStatus.usage, "the name exists")
        gateway.set { (_) throws(ProvisioningTransportError) in ScriptedGateway.problem(.invitationUsed) }
        #expect(await enrol(name: "office", replaces: true) == ExitStatus.failure)
        #expect(try await kept("office")?.1 == before)
        #expect(await enrol(name: "other") == ExitStatus.failure)
        #expect(try await kept("other") == nil)
        #expect(captured.error.contains("used already"))
    }

    @Test("Devices are listed, renewed, rotated and revoked by the profile's name")
    func devices() async throws {
        defer { clean() }
        #expect(await enrol(name: "office") == 0)
        let (_, enrolment) = try #require(await kept("office"))
        let (serverKey, tool) = (serverKey, tool)
        gateway.set { (request) throws(ProvisioningTransportError) in
            let grant = ScriptedGateway.grant(for: enrolment.privateKey.publicKey, server: serverKey)
            switch (request.method, request.target) {
            case (.get, "/v1/devices"):
                let entry = DeviceListEntry(
                    id: grant.device.id, name: "laptop", publicKey: grant.device.publicKey,
                    createdAt: grant.device.createdAt, isCurrent: true)
                return ProvisioningReply(status: 200, body: DeviceList(devices: [entry]).body)
            case (.post, "/v1/device/renew"): return ProvisioningReply(status: 200, body: grant.body)
            case (.delete, _): return ProvisioningReply(status: 204, body: [])
            default: throw .unreachable("\(request)")
            }
        }
        #expect(await tool.reporting { () throws(EnrolProblem) in try await tool.list("office") } == 0)
        #expect(captured.output.contains(" *") && captured.output.contains("laptop"))
        #expect(await tool.reporting { () throws(EnrolProblem) in try await tool.renew("office") } == 0)
        #expect(await tool.reporting { () throws(EnrolProblem) in try await tool.revoke("office", device: nil) } == 0)
        #expect(
            gateway.asked.contains {
                $0.hasPrefix("DELETE ") && $0.hasSuffix("/\(enrolment.grant?.device.id.description ?? "")")
            })
        #expect(await tool.reporting { () throws(EnrolProblem) in try await tool.revoke("office", device: "x") } == 2)
        #expect(await tool.reporting { () throws(EnrolProblem) in try await tool.list("nobody") } == 3)
    }

    @Test("An invitation or a token as an argument is refused, and not repeated")
    func arguments() async {
        for secret in [
            invitation.exportedText, invitation.token.exportedText, "--token=ct_" + String(repeating: "a", count: 43),
        ] {
            for line in [[secret], ["device", secret], ["--name", "x", secret], ["nonsense", secret, "-"]] {
                let captured = CapturedConsole()
                #expect(await Program.run(line, console: captured.console()) == ExitStatus.usage)
                #expect(!captured.error.contains(secret.suffix(20)) && captured.error.contains("standard input"))
            }
        }
        #expect(
            !SecretText.isSecret("ci_1") && !SecretText.isSecret("invitation.txt") && !SecretText.isSecret("--name"))
    }

    @Test("A file that is missing, is not an invitation, or has no pins causes an error")
    func files() throws {
        defer { clean() }
        #expect(throws: EnrolProblem.self) { try InvitationSource.read(folder.path + "/none", captured.console()) }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: "invitation.txt")
        try Data("# from anna\n\n\(invitation.exportedText)\n".utf8).write(to: file)
        #expect(try InvitationSource.read(file.path, captured.console()) == invitation)
        try Data("hello\n".utf8).write(to: file)
        let error = #expect(throws: EnrolProblem.self) { try InvitationSource.read(file.path, captured.console()) }
        #expect(error?.status == ExitStatus.usage)
    }

    @Test("An invitation file that other users can read or change gives a warning without the token")
    func openFile() throws {
        defer { clean() }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: "invitation.txt").path
        try Data("\(invitation.exportedText)\n".utf8).write(to: URL(filePath: file))
        for (mode, isOpen) in [
            (0o600, false), (0o400, false), (0o644, true), (0o640, true), (0o604, true), (0o620, true),
        ] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
            let captured = CapturedConsole()
            #expect(try InvitationSource.read(file, captured.console()) == invitation)
            #expect(captured.error.contains("warning: ") == isOpen, "\(String(mode, radix: 8))")
            #expect(captured.error.contains("'\(file)'") == isOpen && captured.error.contains("chmod 600") == isOpen)
            #expect(!captured.error.contains(invitation.token.exportedText) && captured.output.isEmpty)
        }
    }

    @Test("Profiles are named after the gateway, within the rules for interface names")
    func names() throws {
        for (gateway, host, name) in [
            ("Example Office", "vpn.example.com", "example-office"), (nil, "vpn.example.com", "vpn"),
            ("\u{1F600}", "192.0.2.1", "gateway"), (nil, "2001:db8::1", "gateway"),
            ("A very long name of a gateway", "x.example", "a-very-long-nam"), ("lo", "vpn.example.com", "vpn"),
            ("LO", "lo.example.com", "gateway"), ("-rf", "vpn.example.com", "rf"), (" - x", "x.example", "x"),
            (".hidden", "vpn.example.com", "hidden"), ("../..", "vpn.example.com", "vpn"),
            ("all", "default", "gateway"),
            ("_=+", "vpn.example.com", "vpn"), ("-a very long name of a gateway", "x.example", "a-very-long-nam"),
        ] as [(String?, String, String)] {
            let other = try Invitation(
                host: host, token: invitation.token, expires: invitation.expires, pins: invitation.pins,
                gateway: gateway)
            #expect(EnrolTool.profileName(other) == name)
        }
    }

    @Test("The manual has each command with each of its options")
    func manual() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/man/culvert-enroll.1")
        let manual = try String(contentsOf: file, encoding: .utf8)
        let synopses = manual.components(separatedBy: "\n.Sh DESCRIPTION")[0].components(separatedBy: "\n.Nm\n")
        for command in EnrollCommand.configuration.subcommands where command.configuration.shouldDisplay {
            let name = command._commandName
            let synopsis = try #require(synopses.first { $0.hasPrefix(".Cm \(name)\n") }, "\(name)")
            #expect(manual.contains("\n.It Cm \(name)\n"), "\(name)")
            for option in EnrollCommand.usageString(for: command).split(whereSeparator: {
                !$0.isLetter && !$0.isNumber && $0 != "-"
            }) where option.hasPrefix("--") {
                #expect(synopsis.contains("Fl \(option.dropFirst())"), "\(name) \(option)")
            }
            #expect(EnrollCommand.helpMessage(for: command).contains("Exit status: 0"), "\(name)")
        }
    }
}

@Suite("The pipe between culvert and culvert-enroll")
struct PipeMessagesTests {
    private let server = ProvisioningServer(
        name: "vpn.example.com", address: .v4(127, 0, 0, 1), port: 8443, trust: .authorities("PEM"))

    @Test("Requests and outcomes are unchanged by coding, and nothing else is read")
    func roundTrip() throws {
        let request = ProvisioningRequest(
            server: server, method: .post, target: "/v1/enrolments", bearer: SecretBytes([1, 2, 3]), body: [4, 5],
            replyLimit: 1000, timeout: .seconds(7), socketMark: 9)
        let line = try #require(PipeMessages.line(request))
        #expect(line.last == UInt8(ascii: "\n") && line.dropLast().allSatisfy { $0 != UInt8(ascii: "\n") })
        let read = try #require(PipeMessages.request(line))
        #expect(read.server == server && read.method == .post && read.target == request.target)
        #expect(read.bearer?.bytes == [1, 2, 3] && read.body == [4, 5] && read.socketMark == 9)
        #expect(read.timeout == .seconds(7) && read.replyLimit == 1000)
        for length in 0..<line.count - 1 { #expect(PipeMessages.request(Array(line[..<length])) == nil) }
        let big = ProvisioningRequest(
            server: server, target: "/", body: [UInt8](repeating: 0, count: PipeMessages.requestLimit))
        #expect(PipeMessages.line(big) == nil)

        let reply = PipeMessages.Outcome(.success(.init(status: 201, body: [7, 8])), notes: ["a note"])
        let back = try #require(PipeMessages.outcome(PipeMessages.line(reply)))
        #expect(try back.result.get().status == 201 && back.result.get().body == [7, 8] && back.notes == ["a note"])
        for error in [
            ProvisioningTransportError.unreachable("a"), .untrusted("b"), .clockUnset("c"), .tooLong(limit: 4),
            .unsupported("d"),
        ] {
            let line = PipeMessages.line(.init(.failure(error)))
            guard case .failure(let read) = try #require(PipeMessages.outcome(line)).result else {
                Issue.record("\(error)")
                continue
            }
            #expect(read == error)
        }
        for text in ["", "{}", "[]", #"{"status":200,"notes":[]}"#] {
            #expect(PipeMessages.outcome(Array(text.utf8)) == nil)
        }
    }
}
