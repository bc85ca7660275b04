// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import FoundationEssentials
import Gateway
import NetworkAddresses
import Provisioning
import TunnelSystem
import WireGuardCore

extension PeerCommand {
    /// `culvert gateway peer export`.
    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write the present configuration of a stock WireGuard client.",
            discussion: """
                The gateway does not have the client's private key. With --file, the key is read from the client's present file, \
                which is replaced: the gateway's settings are new, and the private key, ListenPort, Table, commands and other \
                peers are kept, without comments. Without --file, the output has no PrivateKey.

                After 'culvert gateway key announce', --next selects the announced key. A file works with one key only: \
                replace the client's file at the time of the switch.

                Examples:
                  sudo culvert gateway peer export office --file office.conf
                  sudo culvert gateway peer export phone --file phone.conf --qr
                  ssh router cat wg0.conf | sudo culvert gateway peer export router --file - --next
                """)
        @Argument(help: "A name or an ID.") var device: String
        @Option(
            help: ArgumentHelp(
                "The client's present wg-quick file, which is replaced; - for standard input.", valueName: "file"),
            completion: .file())
        var file: String?
        @Option(
            help: ArgumentHelp(
                "The new file to write in place of --file, which only its owner can read; - for standard output.",
                valueName: "file"),
            completion: .file())
        var output: String?
        @Flag(help: "Draw the configuration as a QR code on the terminal.") var qr = false
        @Flag(help: "Use the announced key of the gateway.") var next = false
        @OptionGroup var socket: SocketOptions

        func validate() throws {
            guard file != nil || !qr else {
                throw ValidationError("--qr needs --file: a client cannot use a QR code without its private key")
            }
        }

        func run() throws {
            try carryOut(socket) { tool throws(CommandFailure) in
                if qr { _ = try QRCode.modules("x") }
                let old = try file.map { (path) throws(CommandFailure) in try ClientFile(path) }
                let reply = try tool.client.send(PeerRoutes.grant, try tool.deviceID(device))
                let export = try PeerExport(try EnrolmentGrant(exported: reply), next: next)
                let configuration = try export.configuration(replacing: old)
                if let output {
                    try SecretFile.write(configuration.text, to: output, console: tool.console)
                } else if let old {
                    try old.replace(with: configuration.text, tool.console)
                } else {
                    tool.console.write(.output, configuration.text)
                }
                if qr { for line in try QRCode.lines(configuration.text) { tool.console.line(line) } }
                for notice in export.notices(isComplete: old != nil) { tool.console.problem(notice) }
            }
        }
    }
}

/// The export of a stock client's configuration.
struct PeerExport {
    let grant: EnrolmentGrant
    /// The server whose key the client gets.
    let server: EnrolmentGrant.Server

    /// - Parameter next: Whether to select the announced key. After the time of the switch, it is always selected.
    init(_ grant: EnrolmentGrant, next: Bool) throws(CommandFailure) {
        guard let active = grant.servers.first else {
            throw CommandFailure("the gateway's answer contains no server")
        }
        let announced = grant.servers.dropFirst().first
        guard !next || announced != nil else {
            throw CommandFailure(
                "the gateway has not announced another key", status: ExitStatus.usage,
                fix: "omit --next, or run 'culvert gateway key announce'")
        }
        self.grant = grant
        server = (next || active.notAfterSeconds == 0 ? announced : nil) ?? active
    }

    func configuration(replacing old: ClientFile?) throws(CommandFailure) -> ExportedConfiguration {
        let key = try old.map { (old) throws(CommandFailure) in try old.privateKey(of: grant) }
        return try ExportedConfiguration(grant, key, server: server, replacing: old?.configuration)
    }

    /// The messages for the administrator, in addition to the configuration.
    /// - Parameter isComplete: Whether the configuration has the private key.
    func notices(isComplete: Bool) -> [String] {
        var notices: [String] = []
        if !isComplete {
            notices.append(
                "The configuration has no PrivateKey, which only the client has: keep that line of its present file, or use --file."
            )
        }
        if let seconds = grant.servers.first?.notAfterSeconds, seconds > 0 {
            let time = grant.serverTime.addingTimeInterval(Double(seconds)).formatted(.iso8601)
            notices.append(
                server == grant.servers.first
                    ? "It works until \(time), when the announced key replaces the gateway's present one: export it again with --next."
                    : "It works from \(time) on, when the announced key replaces the gateway's present one.")
        }
        return notices
    }
}

/// The present wg-quick file of a stock client.
struct ClientFile {
    private static let limit = 1 << 20
    private let path: String
    let configuration: TunnelConfiguration

    /// - Parameter path: The file; `-` for standard input.
    init(_ path: String) throws(CommandFailure) {
        self.path = path
        let name = path == "-" ? "standard input" : path
        let descriptor = OwnedDescriptor(path == "-" ? dup(0) : SystemCall.open(path, O_RDONLY))
        guard descriptor.number >= 0, var bytes = SystemCall.readAll(descriptor.number, limit: Self.limit) else {
            throw CommandFailure("cannot read \(name): \(SystemError.words(errno))", status: ExitStatus.usage)
        }
        defer { wipe(&bytes) }
        do throws(ConfigurationErrors) {
            configuration = try TunnelConfiguration.parse(bytes, name: name)
        } catch {
            throw CommandFailure("\(error)", status: ExitStatus.usage)
        }
    }

    /// The private key.
    /// - Throws: ``CommandFailure`` if it is not that of the grant's device.
    func privateKey(of grant: EnrolmentGrant) throws(CommandFailure) -> PrivateKey {
        guard let key = configuration.interface.privateKey, key.publicKey == grant.device.publicKey else {
            throw CommandFailure(
                "the private key in \(path) is not that of '\(grant.device.name)'", status: ExitStatus.usage,
                fix: "select this device's own file")
        }
        return key
    }

    /// Replaces the file; standard output replaces standard input.
    func replace(with text: String, _ console: Console) throws(CommandFailure) {
        guard path != "-" else { return console.write(.output, text) }
        try SecretFile.replace(path, with: text)
        console.problem("\(path) has the present configuration")
    }
}

/// The tunnel configuration of a device for a stock client. It can be written as a wg-quick file.
struct ExportedConfiguration {
    let configuration: TunnelConfiguration
    let text: String

    /// - Parameters:
    ///   - key: The client's private key; `nil` to leave it out.
    ///   - server: The gateway with the key to use; `nil` for the active key.
    ///   - old: The client's present configuration, whose settings that the gateway does not assign are kept.
    init(
        _ grant: EnrolmentGrant, _ key: PrivateKey?, server: EnrolmentGrant.Server? = nil,
        replacing old: TunnelConfiguration? = nil
    ) throws(CommandFailure) {
        guard let server = server ?? grant.servers.first, let endpoint = server.endpoints.first else {
            throw CommandFailure("the gateway's answer contains no server")
        }
        var interface = old?.interface ?? InterfaceConfiguration()
        interface.privateKey = key
        interface.addresses = grant.addresses.map { InterfaceAddress(host: $0) }
        interface.dnsServers = grant.dns
        interface.dnsSearchDomains = grant.searchDomains
        interface.mtu = UInt16(clamping: grant.mtu)
        var peer = PeerConfiguration(publicKey: server.publicKey)
        peer.presharedKey = grant.presharedKey
        peer.allowedIPs = grant.routes
        peer.endpoint = endpoint
        peer.persistentKeepalive = grant.keepaliveSeconds
        let others = try old.map { (old) throws(CommandFailure) in try Self.others(old.peers, than: grant) } ?? []
        configuration = TunnelConfiguration(interface: interface, peers: [peer] + others)
        do throws(UnwritableConfiguration) {
            text = try configuration.wgQuickText()
        } catch {
            throw CommandFailure("cannot write the configuration: \(error)")
        }
    }

    /// The peers of a file that are not the gateway. Its key in the file may be one that it no longer has.
    private static func others(
        _ peers: [PeerConfiguration], than grant: EnrolmentGrant
    ) throws(CommandFailure) -> [PeerConfiguration] {
        let keys = grant.servers.map(\.publicKey)
        let endpoints = grant.servers.flatMap(\.endpoints)
        let tests: [(PeerConfiguration) -> Bool] = [
            { keys.contains($0.publicKey) }, { $0.endpoint.map(endpoints.contains) ?? false },
        ]
        for isGateway in tests where peers.contains(where: isGateway) { return peers.filter { !isGateway($0) } }
        guard peers.count < 2 else {
            throw CommandFailure(
                "none of the \(peers.count) peers in the file has a key or an endpoint of the gateway",
                status: ExitStatus.usage, fix: "remove the gateway's old peer from the file")
        }
        return []
    }
}

extension EnrolmentGrant {
    /// Reads the gateway's answer.
    init(exported reply: JSON) throws(CommandFailure) {
        do throws(ContractError) { self = try EnrolmentGrant(reply) } catch {
            throw CommandFailure("cannot read the gateway's answer: \(error)")
        }
    }
}
