// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert-pin`, which `culvert pin` runs: pins before they are shipped, while they are in use, and when keys change.
struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert-pin",
        abstract: "Show, check and rehearse TLS pins; sign policies.",
        discussion: """
            Examples:
              culvert pin show api.example.com              each certificate with its pins, and a policy
              culvert pin show --policy --backup next.csr api.example.com > policy.json
              culvert pin check policy.json --days 30       will today's servers pass, and for how long
              culvert pin rehearse policy.json next.csr     does the next key pass with the shipped policy
              culvert pin keygen --out signing.key          a key for signing policies
              culvert pin sign --key signing.key ...        a policy as remote configuration

            Exit status: 0 success, 1 a server or a key does not pass, 2 wrong usage or an unreadable file, 6 a server \
            that could not be reached.
            """,
        version: "culvert-pin \(programVersion)",
        subcommands: [Show.self, Check.self, Rehearse.self, Keygen.self, Sign.self, Verify.self])

    /// What several of them take.
    struct RootOptions: ParsableArguments {
        @Option(
            help: ArgumentHelp("Trust the certificates of this PEM file instead of the system's.", valueName: "file"),
            completion: .file())
        var roots: String?
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the certificates of a server, or what is in a file, with their pins.",
            discussion: """
                HOST is a name or an address, with :PORT if it is not 443. FILE holds certificates, signing requests or keys \
                in PEM or DER; a target with a slash, or that exists, is a file, and - is standard input. Private keys \
                are read for their public half only, and never shown.

                The policy pins the key of the server's own certificate. A policy that enforces pins needs a backup: give \
                your own with --backup; without it the issuer's key is taken, and anything that this authority issues passes.

                Examples:
                  culvert pin show api.example.com
                  culvert pin show --backup next.csr --policy api.example.com > policy.json
                  culvert pin show --connect 127.0.0.1:8443 --roots test-ca.pem api.example.com
                  culvert pin show --json server.pem

                Exit status: 0 shown, 2 wrong usage or an unreadable file, 6 the server could not be reached.
                """)

        @Argument(help: ArgumentHelp("A server or a file.", valueName: "host|file"), completion: .file())
        var target: String

        @Option(help: ArgumentHelp("Connect there, and ask for the host's certificates.", valueName: "host:port"))
        var connect: String?

        @Option(
            help: ArgumentHelp("The backup key: a certificate, signing request or key.", valueName: "file"),
            completion: .file())
        var backup: String?

        @OptionGroup var roots: RootOptions

        @Flag(help: "Print the policy only.")
        var policy = false

        @Flag(help: "Print one JSON document.")
        var json = false

        func run() async throws {
            let show = PinShow(
                environment: .standard, connect: connect, backup: backup, roots: roots.roots, onlyPolicy: policy,
                json: json)
            try finish(await show.run(target))
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check whether servers pass a policy today, and for how many days.",
            discussion: """
                Each host is connected to and judged as an app with this policy would. It passes when a pin matches and its \
                certificates and the pins last long enough. What an app would accept only because its policy is lenient \
                (audit, permissive, fallback, expired pins) does not pass. Without HOST all hosts of the policy that are named \
                exactly are checked.

                Examples:
                  culvert pin check policy.json
                  culvert pin check --days 30 policy.json api.example.com www.example.com:8443
                  culvert pin check --json policy.json | jq '.hosts[] | select(.passes | not)'

                Exit status: 0 all pass, 1 one does not, 2 wrong usage or a policy that is not valid, 6 one could not be reached \
                and the others pass.
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Argument(help: ArgumentHelp("Servers, with :PORT if it is not 443.", valueName: "host"))
        var hosts: [String] = []

        @Option(help: ArgumentHelp("The least number of days for which they have to pass.", valueName: "days"))
        var days = 7

        @Option(help: ArgumentHelp("The environment of the policy, where it has several.", valueName: "name"))
        var environment: String?

        @Option(help: ArgumentHelp("Connect there instead; for one host.", valueName: "host:port"))
        var connect: String?

        @OptionGroup var roots: RootOptions

        @Flag(help: "Print one JSON document.")
        var json = false

        func validate() throws {
            guard days >= 0 else { throw ValidationError("--days is a number from 0 on") }
            guard connect == nil || hosts.count == 1 else { throw ValidationError("--connect goes with one host") }
        }

        func run() async throws {
            let check = PinCheck(
                environment: .standard, days: days, environmentName: environment, connect: connect, roots: roots.roots,
                json: json)
            try finish(await check.run(policy, hosts))
        }
    }

    struct Rehearse: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check whether the next key or certificate passes a policy that is shipped.",
            discussion: """
                FILE holds the next key, signing request, public key or certificate, in PEM or DER; certificates of its issuers \
                may follow it, or be given by --issuers. A certificate is judged as an app would; of a key, pins of the leaf \
                are compared, and of the issuers those of authorities. --at tries another day.

                Examples:
                  culvert pin rehearse policy.json next.csr
                  culvert pin rehearse --host api.example.com --issuers ca.pem policy.json next.key
                  culvert pin rehearse --at 2027-01-01 policy.json next-chain.pem

                Exit status: 0 it passes, 1 it does not, 2 wrong usage or an unreadable file.
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Argument(help: ArgumentHelp("What the server will have.", valueName: "file"), completion: .file())
        var file: String

        @Option(help: ArgumentHelp("The host it is for, where the policy names several.", valueName: "host"))
        var host: String?

        @Option(
            help: ArgumentHelp("Certificates of the authorities that will issue it.", valueName: "file"),
            completion: .file())
        var issuers: String?

        @Option(help: ArgumentHelp("The day to judge, as 2027-01-31; today by default.", valueName: "date"))
        var at: String?

        @Option(help: ArgumentHelp("The environment of the policy, where it has several.", valueName: "name"))
        var environment: String?

        @OptionGroup var roots: RootOptions

        @Flag(help: "Print one JSON document.")
        var json = false

        func run() async throws {
            let rehearsal = PinRehearsal(
                environment: .standard, host: host, issuers: issuers, date: at, environmentName: environment,
                roots: roots.roots, json: json)
            try finish(await rehearsal.run(policy, file))
        }
    }
}
