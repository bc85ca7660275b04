// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import PacketTunnel
import Provisioning

/// `culvert-enroll`, which `culvert enroll` runs: enrols this machine as a device of a gateway, and manages the device.
struct EnrollCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert-enroll",
        abstract: "Make this machine a device of a gateway, with an invitation.",
        discussion: """
            Examples:
              sudo culvert enroll invitation.txt        a profile named after the gateway
              sudo culvert enroll - --name office       the invitation on standard input
              sudo culvert enroll --name office         asks for it, without showing it
              sudo culvert up office
              sudo culvert enroll list office           the user's devices
              sudo culvert enroll rotate office         another key

            Exit status: 0 success; 1 the gateway says no; 2 wrong usage, or an invitation that cannot be used; 3 no such \
            profile or file; 4 not permitted; 6 no way to the gateway.
            """,
        version: "culvert-enroll \(programVersion)",
        subcommands: [Device.self, List.self, Renew.self, Rotate.self, Revoke.self, Transport.self],
        defaultSubcommand: Device.self)

    /// The option that says where profiles are.
    struct ProfileOptions: ParsableArguments {
        @Option(
            name: .customLong("directory"),
            help: ArgumentHelp("The folder of profiles and their secrets.", valueName: "folder"), completion: .directory
        )
        var path = ProfileDirectory.standard

        @Flag(help: "Print one JSON object.")
        var json = false

        var tool: EnrolTool { EnrolTool(directory: ProfileDirectory(path: path), console: .standard, json: json) }
    }

    /// The profile and its folder.
    struct ProfileArgument: ParsableArguments {
        @Argument(help: ArgumentHelp("The profile.", valueName: "name"))
        var name: String

        @OptionGroup var profiles: ProfileOptions
    }

    struct Device: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "device",
            abstract: "Enrol: 'culvert enroll FILE' for short.",
            discussion: """
                The invitation is the line that the gateway's administrator gave, in a file or on standard input (-), or it \
                is asked for on the terminal, which does not show it; it is never an argument. It says where the gateway is \
                and which keys it has: nothing is trusted on first use.

                Key and credential are made here, and kept with what the gateway gives in the folder of secrets, which only \
                its owner can read. Where the gateway cannot be reached, the profile is kept, and 'culvert up' enrols. \
                With --replace the old profile stays unchanged until the gateway has accepted the new device. If the gateway \
                cannot be reached, run the command again with the same invitation.

                Examples:
                  sudo culvert enroll invitation.txt
                  sudo culvert enroll invitation.txt --name office --device-name "anna's laptop"
                  sudo culvert enroll - --name office --replace

                Exit status: 0 enrolled; 1 the gateway says no; 2 wrong usage, or the name is taken; 3 no such file; 4 not \
                permitted; 6 no way to the gateway.
                """)

        @Argument(
            help: ArgumentHelp(
                "A file with the invitation; - is standard input. Without this option, the command asks for it.",
                valueName: "file"),
            completion: .file())
        var file: String?

        @Option(
            help: ArgumentHelp("The profile's and its interface's name; by default the gateway's.", valueName: "name"))
        var name: String?

        @Option(
            help: ArgumentHelp("The device's display name (default: the machine's name).", valueName: "name")
        )
        var deviceName: String?

        @Flag(help: "Replace the profile that has this name.")
        var replace = false

        @OptionGroup var profiles: ProfileOptions

        func run() async throws {
            let tool = profiles.tool
            try finish(
                await tool.reporting { () throws(EnrolProblem) in
                    try await tool.enrol(
                        try InvitationSource.read(file, tool.console), name: name, deviceName: deviceName,
                        replaces: replace)
                })
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the user's devices.",
            discussion: """
                Examples:
                  sudo culvert enroll list office
                  sudo culvert enroll list office --json | jq -r '.devices[].name'

                Exit status: 0 listed; 1 the gateway says no; 3 no such profile; 4 not permitted; 6 no way to the gateway.
                """)

        @OptionGroup var profile: ProfileArgument

        func run() async throws {
            let tool = profile.profiles.tool
            try finish(await tool.reporting { () throws(EnrolProblem) in try await tool.list(profile.name) })
        }
    }

    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Renew the device: extend its expiry and fetch its settings.",
            discussion: """
                A tunnel that is up renews by itself; so does each start.

                Examples:
                  sudo culvert enroll renew office

                Exit status: 0 renewed; 1 the gateway says no; 3 no such profile; 4 not permitted; 6 no way to the gateway.
                """)

        @OptionGroup var profile: ProfileArgument

        func run() async throws {
            let tool = profile.profiles.tool
            try finish(await tool.reporting { () throws(EnrolProblem) in try await tool.renew(profile.name) })
        }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give the device another key.",
            discussion: """
                The old key proves itself to the gateway, and works no longer. A tunnel that is up takes the new one when its \
                session ends, within minutes; take it down and up to use it at once.

                Examples:
                  sudo culvert enroll rotate office

                Exit status: 0 rotated; 1 the gateway says no; 3 no such profile; 4 not permitted; 6 no way to the gateway.
                """)

        @OptionGroup var profile: ProfileArgument

        func run() async throws {
            let tool = profile.profiles.tool
            try finish(await tool.reporting { () throws(EnrolProblem) in try await tool.rotate(profile.name) })
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke this device, or another device of the user.",
            discussion: """
                Its key works no longer from then on. The profile stays: 'culvert profile remove' removes it.

                Examples:
                  sudo culvert enroll revoke office
                  sudo culvert enroll revoke office --device DEVICE

                Exit status: 0 revoked; 1 the gateway says no; 2 wrong usage; 3 no such profile; 4 not permitted; 6 no way \
                to the gateway.
                """)

        @OptionGroup var profile: ProfileArgument

        @Option(help: ArgumentHelp("Another device, by the id that 'list' shows.", valueName: "id"))
        var device: String?

        func run() async throws {
            let tool = profile.profiles.tool
            try finish(
                await tool.reporting { () throws(EnrolProblem) in
                    try await tool.revoke(profile.name, device: device)
                })
        }
    }

    struct Transport: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send one request of 'culvert up', which links no TLS.", shouldDisplay: false)

        func run() async throws { try finish(await PipeEnd.run()) }
    }
}
