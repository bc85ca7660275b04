// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import PacketTunnel
import WireGuardTunnel

/// `culvert guard`: a leak policy that holds whether or not its tunnel runs.
struct GuardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "guard",
        abstract: "Hold a tunnel's leak policy, whether or not the tunnel runs.",
        discussion: """
            The policy's firewall is loaded immediately, and stays until --release: before the tunnel is up, when it is taken \
            down, when its process is killed. The unit culvert-guard@NAME does this when the machine starts, before \
            there is a network:

              sudo systemctl enable culvert-guard@home culvert@home

            The policy is the profile's, or --leak-policy: 'enforced' blocks the traffic that is routed into the tunnel, 'everything' \
            all traffic. DHCP works, and the networks that the profile allows are reachable once the tunnel's \
            process runs, which follows changes of the networks. A tunnel that is started has at least this policy.

            Examples:
              sudo culvert guard home
              sudo culvert guard wg0.conf --leak-policy everything
              sudo culvert guard home --release

            Exit status: 0, 1, 2, 3, 4; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp(
            "A wg-quick file's path, a profile's name, or that of a file in /etc/wireguard.", valueName: "tunnel"),
        completion: .file(extensions: ["conf"]))
    var tunnel: String

    @Option(help: ArgumentHelp("The interface's name, in place of the file's or profile's.", valueName: "name"))
    var interface: String?

    @Option(help: ArgumentHelp("The policy to hold: enforced or everything.", valueName: "policy"))
    var leakPolicy: LeakPolicyName?

    @Flag(help: "Release the policy: it then lasts only as long as the tunnel.")
    var release = false

    @OptionGroup var profiles: ProfileOptions
    @OptionGroup var runtime: RuntimeOptions

    func validate() throws {
        if let interface, !TunnelName.isValid(interface) {
            throw ValidationError(TunnelName.badName(interface).text)
        }
    }

    func run() throws {
        let command = self
        try finish(
            SignalledRun.run {
                let console = Console.standard
                do throws(CommandProblem) {
                    if command.release {
                        let name = try TunnelName.of(argument: command.interface ?? command.tunnel)
                        try TunnelGuard.release(name, command.runtime.directory, console)
                    } else {
                        try TunnelGuard.hold(try await command.load(), command.runtime.directory, console)
                    }
                    return ExitStatus.success
                } catch {
                    return error.report(to: console)
                }
            })
    }

    private func load() async throws(CommandProblem) -> LoadedTunnel {
        var loaded = try await TunnelLoader(profiles: profiles.folder, interface: interface).load(tunnel)
        if let leakPolicy { loaded.leakPolicy = leakPolicy.policy }
        guard loaded.leakPolicy.blocksAfterFailure else {
            throw CommandProblem(
                ExitStatus.usage,
                "the leak policy of \(loaded.source) is 'route-based', which blocks nothing\n"
                    + "  fix: use --leak-policy enforced, or --leak-policy everything")
        }
        return loaded
    }
}
