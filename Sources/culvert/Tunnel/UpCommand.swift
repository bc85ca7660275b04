// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CredentialTunnel
import PacketTunnel
import Provisioning
import WireGuardDevice
import WireGuardTunnel

/// `culvert up`: brings up the tunnel that a file or a profile describes.
struct UpCommand: ParsableCommand {
    static let name = "up"
    /// The values of options that a command line does not have.
    static let (standardMemory, standardTimeout) = ("client", 30)

    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Bring a tunnel up, from a wg-quick file or a profile: WireGuard's, a gateway's or one with a login.",
        discussion: """
            The argument is a file's path, whose name names the interface (wg0.conf: wg0); else the name of a profile; \
            else that of a file in /etc/wireguard. A process in the background runs the tunnel; this returns when the \
            tunnel is connected or has failed, and undoes its changes if it failed or is interrupted. With \
            --no-wait it returns once the tunnel's settings are in effect, and the tunnel continues to try for as long as it \
            takes, even if there is no network yet or the server's name has no address yet.

            Routes, name servers and hooks (PreUp, PostUp, PreDown, PostDown) are what wg-quick(8) would make of the \
            file. The local network stays reachable outside the tunnel unless --no-local-network is given, and so does \
            each network of --allow-network. --leak-policy limits other traffic outside the tunnel: \
            \(LeakPolicyName.meanings).

            A tunnel whose server is silent stays up and continues to try forever, so that no traffic leaves \
            outside it: see --end-when-dead.

            Examples:
              sudo culvert up wg0.conf
              sudo culvert up home
              sudo culvert up wg0 --leak-policy enforced
              sudo culvert up wg0 --no-local-network --allow-network 192.168.7.0/24
              sudo culvert up wg0 --ping 10.0.0.1 --end-when-dead at-once
              sudo culvert up wg0 --no-wait
              sudo culvert up ./wg0.conf --foreground

            Exit status: 0, 1, 2, 3, 4, 5, 6, 7, 8, 130; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp(
            "A wg-quick file's path, a profile's name, or that of a file in /etc/wireguard.", valueName: "tunnel"),
        completion: .file(extensions: ["conf"]))
    var tunnel: String

    @Option(help: ArgumentHelp("The interface's name, in place of the file's or profile's.", valueName: "name"))
    var interface: String?

    @OptionGroup(title: "Traffic outside the tunnel") var passing: LeakPolicyOptions

    @Option(
        help: ArgumentHelp(
            "The memory of the data path: extension (8 MiB), client (24 MiB, up to 42 with 20,000 allowed IPs), gateway:PEERS or MIB:PEERS.",
            valueName: "budget"))
    var memory = Self.standardMemory

    @Option(
        help: ArgumentHelp(
            "The implementation of ChaCha20-Poly1305: \(TransportAEAD.Choice.names) (libipsec-mb1, AVX-512 and IFMA).",
            valueName: "name"))
    var aead = TransportAEAD.Choice.standard.rawValue

    @Flag(help: "Do not change the system's name servers.")
    var noDns = false

    @OptionGroup(title: "Tunnels without data") var connectivity: ConnectivityArguments

    @Option(help: ArgumentHelp("The time limit for the server's answer: 1 to 600 seconds.", valueName: "seconds"))
    var timeout = Self.standardTimeout

    @Flag(
        name: .customLong("no-wait"),
        help:
            "Do not wait for the server's answer: the tunnel is up once its settings are in effect, and continues to try."
    )
    var doesNotWait = false

    @Flag(help: "Stay, and write the log to standard error: for service managers (supports sd_notify).")
    var foreground = false

    @Flag(name: .shortAndLong, help: "Log at level debug.")
    var verbose = false

    @OptionGroup(title: "Permitted users") var users: UserOptions

    @Option(help: .private)
    var reportDescriptor: Int32?

    @Option(help: .private)
    var runPrograms: String?

    @OptionGroup var profiles: ProfileOptions
    @OptionGroup var runtime: RuntimeOptions

    func validate() throws {
        guard (1...600).contains(timeout) else {
            throw ValidationError("--timeout is \(timeout); it must be from 1 to 600")
        }
        do throws(MemoryBudgetTextError) {
            _ = try MemoryBudget(text: memory, lanes: 1)
        } catch {
            throw ValidationError("--memory is \(error)")
        }
        guard TransportAEAD.Choice(rawValue: aead) != nil else {
            throw ValidationError("--aead is '\(aead)'; it must be \(TransportAEAD.Choice.names)")
        }
        if let interface, !TunnelName.isValid(interface) {
            throw ValidationError(TunnelName.badName(interface).text)
        }
    }

    func run() throws {
        try finish(TunnelUp.run(self, console: .standard))
    }
}

extension UpCommand {
    /// Parses a command line of `up` without the descriptions of all other commands, and one without options without the
    /// parser: both would delay the start of a tunnel.
    /// - Returns: `nil` for other commands, requests for help, and mistakes.
    static func parsed(from arguments: [String]) -> UpCommand? {
        guard arguments.first == name else { return nil }
        return TunnelUp.readyCommand(arguments) ?? (try? parse(Array(arguments.dropFirst())))
    }

    /// Selects the implementation of ChaCha20-Poly1305 of this process.
    func selectAEAD() throws(CommandProblem) {
        // The command has been validated.
        let choice = TransportAEAD.Choice(rawValue: aead) ?? .standard
        do throws(TransportAEADError) { try TransportAEAD.select(choice) } catch {
            // As after wrong usage: a restart without a change cannot succeed.
            throw CommandProblem(ExitStatus.usage, "\(error)\n  fix: \(error.fix)")
        }
    }

    /// Loads the tunnel, and applies the options of this command to it.
    func load(
        reading read: @escaping @Sendable (String) -> CheckedFile = { CheckedFile(path: $0, isRegular: true) }
    ) async throws(CommandProblem) -> LoadedTunnel {
        let loader = TunnelLoader(profiles: profiles.folder, interface: interface, read: read)
        let loaded = adapt(try await loader.load(tunnel))
        _ = try SystemUsers.numbers(loaded.permittedUsers)
        try loaded.kind.check(loaded.source)
        return loaded
    }

    /// Applies the options of this command to a tunnel.
    func adapt(_ loaded: LoadedTunnel) -> LoadedTunnel {
        var loaded = loaded
        loaded.permittedUsers += users.permittedUsers.filter { !loaded.permittedUsers.contains($0) }
        switch loaded.kind {
        case .wireGuard(var configuration):
            passing.apply(to: &configuration)
            if noDns { configuration.dns = nil }
            connectivity.apply(to: &configuration.connectivity)
            configuration.handshakeTimeout = Double(timeout)
            let waits = configuration.waitsForHandshake && !doesNotWait
            configuration.waitsForHandshake = waits && !configuration.privateKeyComesLater
            if waits, configuration.privateKeyComesLater, configuration.hasEndpoints {
                loaded.proofAfterHooks = .seconds(timeout)
            }
            loaded.kind = .wireGuard(configuration)
        case .login(var configuration):
            passing.apply(to: &configuration)
            if noDns { configuration.usesNameServers = false }
            connectivity.apply(to: &configuration.connectivity)
            configuration.loginTimeout = Double(timeout)
            // Only the server knows the settings, so nothing can be applied before it has answered.
            if doesNotWait { loaded.warnings.append("--no-wait is not for a login: it waits for the server's answer") }
            loaded.kind = .login(configuration)
        case .enrolled(var configuration):
            passing.apply(to: &configuration)
            if noDns { configuration.usesNameServers = false }
            connectivity.apply(to: &configuration.connectivity)
            (configuration.handshakeTimeout, configuration.gatewayTimeout) = (Double(timeout), Double(timeout))
            if doesNotWait {
                loaded.warnings.append(
                    "--no-wait is not for a device of a gateway: it waits for the gateway's settings")
            }
            loaded.kind = .enrolled(configuration)
        }
        return loaded
    }
}
