// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Logging
import NetworkAddresses
import PacketTunnel
import PinnedProvisioning
import Provisioning
import TunnelSystem
import WireGuardCore

/// The program's operations on profiles and their gateways.
struct EnrolTool: Sendable {
    var directory: ProfileDirectory
    var console: Console
    var json = false
    /// Sends requests to a gateway.
    var transport: any ProvisioningTransport = PinnedProvisioningTransport(logger: EnrolTool.logger)
    /// The time limit of each request, including all attempts.
    var deadline: Duration = .seconds(30)

    /// A logger that discards the library's warnings, because the resulting error contains them.
    private static let logger = Logger(label: "enrol") { _ in SwiftLogNoOpLogHandler() }

    /// Runs a command and reports its error.
    /// - Returns: The exit status.
    func reporting(_ body: () async throws(EnrolProblem) -> Void) async -> Int32 {
        do throws(EnrolProblem) {
            try await body()
            return ExitStatus.success
        } catch {
            console.problem("error: \(error.text)")
            return error.status
        }
    }

    // MARK: - Enrolling

    /// Makes a profile from an invitation, and enrols the device. A new profile is stored before the request is sent,
    /// and is kept unless the gateway refuses the device. An existing profile is replaced only after the gateway has
    /// accepted the new device.
    /// - Parameter invitation: Reads the invitation, once the tool has access to the folder of profiles.
    func enrol(
        _ invitation: @autoclosure () throws(EnrolProblem) -> Invitation, name: String?, deviceName: String?,
        replaces: Bool
    ) async throws(EnrolProblem) {
        // Without access, the user is not asked for an invitation, and no copy of one is read.
        _ = try await manager()
        let invitation = try invitation()
        let name = name ?? Self.profileName(invitation)
        guard FileName.isInterface(name) else {
            throw EnrolProblem(
                ExitStatus.usage,
                "'\(name)' is not a valid tunnel name: use 1 to 15 letters, digits and the characters _ = + . -\n  fix: name it with --name"
            )
        }
        // Lock the folder, so that only one program at a time replaces a profile: otherwise, each would remove the
        // other's secret.
        let lock = replaces ? try replacementLock() : nil
        defer { if let lock { SystemCall.close(lock) } }
        let manager = try await manager()
        let old = await manager.profiles.first { $0.name == name }
        guard old == nil || replaces else {
            throw EnrolProblem(
                ExitStatus.usage,
                "a profile '\(name)' already exists\n  fix: use another name with --name, or --replace")
        }
        var configuration = EnrolledTunnelConfiguration(
            invitation, deviceName: deviceName ?? MachineName.host, platform: MachineName.platform)
        configuration.allowsLocalNetwork = true
        var generator = SystemRandomNumberGenerator()
        let enrolment = DeviceEnrolment(
            token: invitation.token, name: Self.label(configuration.deviceName), platform: configuration.platform,
            using: &generator)
        do throws(TunnelError) {
            let done =
                if let old {
                    try await replace(old, with: configuration, enrolment, manager)
                } else {
                    try await create(name, configuration, enrolment, manager)
                }
            printResult("enrolled", done, name)
        } catch {
            throw EnrolProblem(error)
        }
    }

    /// Creates a profile, and enrols its device.
    private func create(
        _ name: String, _ configuration: EnrolledTunnelConfiguration, _ enrolment: DeviceEnrolment,
        _ manager: TunnelManager
    ) async throws(TunnelError) -> DeviceEnrolment {
        var configuration = configuration
        var profile = TunnelProfile(name: name, provider: EnrolledTunnelConfiguration.provider)
        try configuration.set(in: &profile)
        try await manager.create(profile, secrets: [configuration.secretName: enrolment.secret])
        let keeper = try keeper(configuration, keepingFor: profile)
        let done: DeviceEnrolment
        do throws(ProvisioningError) {
            done = try await keeper.refreshed(enrolment)
        } catch {
            guard !error.isPending else { throw pending(error, name) }
            try await manager.remove(profile.id)
            throw error.tunnelError
        }
        configuration.deviceID = done.grant?.device.id
        try configuration.set(in: &profile)
        try await manager.update(profile)
        return done
    }

    private func pending(_ error: ProvisioningError, _ name: String) -> TunnelError {
        let reason = error.tunnelError
        return TunnelError(
            reason.code, "\(reason.message); the profile '\(name)' is kept",
            fix:
                "\(reason.fix.isEmpty ? "" : "\(reason.fix); ")'\(startCommand(name))' enrols when the gateway can be reached"
        )
    }

    // MARK: - Devices

    func list(_ name: String) async throws(EnrolProblem) {
        let device = try await device(name)
        do throws(ProvisioningError) {
            let devices = try await device.client.devices(credential: device.enrolment.credential)
            guard !json else {
                return console.line((["devices": .array(devices.map(Self.json))] as JSON).text)
            }
            var table = TextTable(["DEVICE", "NAME", "PLATFORM", "LAST SEEN", "EXPIRES"])
            for entry in devices {
                table.add([
                    entry.id.description + (entry.isCurrent ? " *" : ""), entry.name.isEmpty ? "-" : entry.name,
                    entry.platform ?? "-",
                    entry.lastSeenSecondsAgo.map { "\(Self.span($0)) ago" } ?? "never",
                    entry.expiresInSeconds.map { "in \(Self.span($0))" } ?? "never",
                ])
            }
            for line in table.lines { console.line(line) }
        } catch {
            throw EnrolProblem(error)
        }
    }

    func renew(_ name: String) async throws(EnrolProblem) {
        let device = try await device(name)
        do throws(ProvisioningError) {
            printResult("renewed", try await device.keeper.refreshed(device.enrolment, renewing: true), name)
        } catch {
            throw EnrolProblem(error)
        }
    }

    func rotate(_ name: String) async throws(EnrolProblem) {
        let device = try await device(name)
        do throws(ProvisioningError) {
            printResult("rotated the key of", try await device.keeper.rotated(device.enrolment), name)
        } catch {
            throw EnrolProblem(error)
        }
    }

    func revoke(_ name: String, device other: String?) async throws(EnrolProblem) {
        let device = try await device(name)
        let own = device.enrolment.grant?.device.id
        guard let id = other.map({ RandomID($0) }) ?? own else {
            throw EnrolProblem(
                ExitStatus.usage,
                other == nil
                    ? "'\(name)' is not enrolled yet"
                    : "this is not an ID of 26 characters\n  fix: see 'culvert enroll list \(name)'")
        }
        do throws(ProvisioningError) {
            try await device.client.revoke(id, credential: device.enrolment.credential)
        } catch {
            throw EnrolProblem(error)
        }
        guard !json else { return console.line((["revoked": .string(id.description)] as JSON).text) }
        console.line(
            id == own
                ? "revoked this device, \(id); remove its profile with 'culvert profile remove \(name)'"
                : "revoked \(id)")
    }

    // MARK: - Helpers

    private struct KeptDevice {
        var keeper: EnrolmentKeeper
        var enrolment: DeviceEnrolment
        var client: EnrolmentClient { keeper.client.trusting(enrolment.grant) }
    }

    private func device(_ name: String) async throws(EnrolProblem) -> KeptDevice {
        do throws(TunnelError) {
            let manager = try await directory.manager().manager
            guard let profile = await manager.profiles.first(where: { $0.name == name }) else {
                throw TunnelError(
                    .profileNotFound, "the profile '\(name)' does not exist in \(directory.path)",
                    fix: "see 'culvert profile list'")
            }
            guard profile.provider == EnrolledTunnelConfiguration.provider else {
                throw TunnelError(
                    .configurationInvalid, "the profile '\(name)' is not a device of a gateway",
                    fix: "enrol with an invitation")
            }
            let configuration: EnrolledTunnelConfiguration = try profile.configuration.decode()
            let keeper = try keeper(configuration, keepingFor: profile)
            let secret = try await directory.secrets().read(configuration.secretName, of: profile.id)
            let enrolment = try await keeper.read(
                secret, name: configuration.deviceName, platform: configuration.platform)
            return KeptDevice(keeper: keeper, enrolment: enrolment)
        } catch {
            throw EnrolProblem(error)
        }
    }

    private func manager() async throws(EnrolProblem) -> TunnelManager {
        do throws(TunnelError) { return try await directory.manager().manager } catch { throw EnrolProblem(error) }
    }

    /// - Parameter profile: The profile in which the enrolment is stored after each change; `nil` if the caller stores
    ///   it.
    func keeper(
        _ configuration: EnrolledTunnelConfiguration, keepingFor profile: TunnelProfile?
    ) throws(TunnelError) -> EnrolmentKeeper {
        let store = try directory.secrets()
        let client = EnrolmentClient(
            servers: configuration.gateways, transport: transport, deadline: deadline, logger: Self.logger)
        return EnrolmentKeeper(client: client, logger: Self.logger) { (secret) throws(TunnelError) in
            if let profile { try await store.write(secret, configuration.secretName, of: profile.id) }
        }
    }

    /// The display name, within the gateway's limits.
    private static func label(_ text: String?) -> String? {
        guard let text else { return nil }
        let line = String(String.UnicodeScalarView(text.unicodeScalars.filter { !$0.isControl })).prefix(64)
        return line.isEmpty ? nil : String(line)
    }

    /// Interface names that the kernel uses or refuses. A label cannot select them.
    private static let reservedNames: Set<String> = ["lo", "all", "default"]

    /// The name of the profile and its interface: the gateway's label, or the first part of its host's name. It starts
    /// with a letter or a digit, so that a label cannot make a name that looks like an option or is hidden.
    static func profileName(_ invitation: Invitation) -> String {
        let isAddress = invitation.host.contains(":") || invitation.host.allSatisfy { $0.isNumber || $0 == "." }
        let host = isAddress ? "gateway" : String(invitation.host.prefix { $0 != "." })
        for text in [invitation.gateway ?? "", host] {
            let signs = text.lowercased().map { $0 == " " ? "-" : $0 }
                .filter { FileName.isInterface(String($0)) || $0 == "." }
            let name = String(signs.drop { !$0.isLetter && !$0.isNumber }.prefix(15))
            if FileName.isInterface(name), !reservedNames.contains(name) { return name }
        }
        return "gateway"
    }

    private func printResult(_ done: String, _ enrolment: DeviceEnrolment, _ name: String) {
        guard let grant = enrolment.grant else { return }
        let device = grant.device
        guard !json else {
            let document: JSON = [
                "profile": .string(name),
                "device": [
                    "id": .string(device.id.description), "name": .string(device.name), "user": .string(device.user),
                    "publicKey": .string(device.publicKey.base64),
                    "expiresInSeconds": device.expiresInSeconds.map { .integer($0) } ?? .null,
                ],
                "addresses": .array(grant.addresses.map { .string($0.description) }),
                "servers": .array(grant.servers.flatMap(\.endpoints).map { .string($0.description) }),
            ]
            return console.line(document.text)
        }
        console.line("\(done) '\(device.name)' of \(device.user): device \(device.id)")
        console.line("  addresses: \(grant.addresses.map(\.description).joined(separator: ", "))")
        if let seconds = device.expiresInSeconds {
            console.line("  expires in \(Self.span(seconds)), unless it renews")
        }
        console.line("  start it with '\(startCommand(name))'")
    }

    /// The command that starts a profile of this folder.
    private func startCommand(_ name: String) -> String {
        "culvert up \(name)" + (directory.path == ProfileDirectory.standard ? "" : " --directory \(directory.path)")
    }

    private static func json(_ entry: DeviceListEntry) -> JSON {
        [
            "id": .string(entry.id.description), "name": .string(entry.name),
            "platform": entry.platform.map { .string($0) } ?? .null, "publicKey": .string(entry.publicKey.base64),
            "createdAt": .string(entry.createdAtText),
            "expiresInSeconds": entry.expiresInSeconds.map { .integer($0) } ?? .null,
            "lastSeenSecondsAgo": entry.lastSeenSecondsAgo.map { .integer($0) } ?? .null,
            "isCurrent": .bool(entry.isCurrent),
        ]
    }

    private static func span(_ seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3600) h"
        default: "\(seconds / 86_400) days"
        }
    }
}

extension EnrolledTunnelConfiguration {
    /// Sets the provider and the configuration of a profile.
    func set(in profile: inout TunnelProfile) throws(TunnelError) {
        profile.provider = Self.provider
        profile.serverAddress = gateways.first?.authority ?? ""
        profile.configuration = try JSONValue(encoding: self)
    }
}

extension ProvisioningError {
    /// Whether a later attempt may succeed, so that the profile with the pending enrolment is kept.
    var isPending: Bool {
        switch tunnelError.code {
        case .serverUnreachable, .stopped: true
        default: false
        }
    }
}
