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
        abstract: "Enrol this machine as a device of a gateway with an invitation.",
        discussion: """
            Needs root, because the folder of profiles belongs to root, unless --directory selects another folder.

            Examples:
              sudo culvert enroll invitation.txt        a profile named after the gateway
              sudo culvert enroll - --name office       the invitation on standard input
              sudo culvert enroll --name office         asks for it, without showing it
              sudo culvert up office
              sudo culvert enroll list office           the user's devices
              sudo culvert enroll rotate office         replace the key

            Exit status: 0, 1, 2, 3, 4, 6; see culvert-enroll(1).
            """,
        version: "culvert-enroll \(programVersion)",
        subcommands: [Device.self, List.self, Renew.self, Rotate.self, Revoke.self, Transport.self],
        defaultSubcommand: Device.self)

    /// The options for the folder of profiles and the output.
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
            abstract: "Enrol; the short form is 'culvert enroll FILE'.",
            discussion: """
                The invitation is a line from the gateway's administrator. It is in a file or on standard input (-), or you type \
                it at the terminal, which does not show it; it is never an argument. It contains the gateway's address and the \
                pins of its keys: nothing is trusted on first use.

                Key and credential are made on this machine, and stored with the grant in the folder of secrets, which only \
                its owner can read. If the gateway cannot be reached, the profile is kept, and 'culvert up' enrols. \
                Needs root for the folder of profiles; without access, the command ends before it reads the invitation. \
                With --replace the old profile stays unchanged until the gateway has accepted the new device. If the gateway \
                cannot be reached, run the command again with the same invitation.

                Examples:
                  sudo culvert enroll invitation.txt
                  sudo culvert enroll invitation.txt --name office --device-name "anna's laptop"
                  sudo culvert enroll - --name office --replace

                Exit status: 0, 1, 2, 3, 4, 6; see culvert-enroll(1).
                """)

        @Argument(
            help: ArgumentHelp(
                "A file with the invitation; - is standard input. Without this option, the command asks for it.",
                valueName: "file"),
            completion: .file())
        var file: String?

        @Option(
            help: ArgumentHelp("The name of the profile and its interface (default: the gateway's).", valueName: "name")
        )
        var name: String?

        @Option(
            help: ArgumentHelp("The device's display name (default: the machine's name).", valueName: "name")
        )
        var deviceName: String?

        @Flag(help: "Replace the profile with this name.")
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

                Exit status: 0, 1, 3, 4, 6; see culvert-enroll(1).
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
                A running tunnel renews by itself, and so does each start.

                Examples:
                  sudo culvert enroll renew office

                Exit status: 0, 1, 3, 4, 6; see culvert-enroll(1).
                """)

        @OptionGroup var profile: ProfileArgument

        func run() async throws {
            let tool = profile.profiles.tool
            try finish(await tool.reporting { () throws(EnrolProblem) in try await tool.renew(profile.name) })
        }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace the device's key.",
            discussion: """
                The device proves its old key to the gateway, which then accepts only the new one. A running tunnel uses the \
                new key when its session ends, within minutes. Stop and start the tunnel to use it immediately.

                Examples:
                  sudo culvert enroll rotate office

                Exit status: 0, 1, 3, 4, 6; see culvert-enroll(1).
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
                Its key is no longer valid. The profile stays: remove it with 'culvert profile remove'.

                Examples:
                  sudo culvert enroll revoke office
                  sudo culvert enroll revoke office --device DEVICE

                Exit status: 0, 1, 2, 3, 4, 6; see culvert-enroll(1).
                """)

        @OptionGroup var profile: ProfileArgument

        @Option(help: ArgumentHelp("The ID of another device, as shown by 'list'.", valueName: "id"))
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
