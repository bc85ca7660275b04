// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert-pin`, which `culvert pin` runs. It makes and checks pins before a release, in operation, and when keys
/// change.
struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert-pin",
        abstract: "Show, check and rehearse TLS pins; sign policies.",
        discussion: """
            Examples:
              culvert pin show api.example.com              print pins and a policy
              culvert pin show --policy --backup next.csr api.example.com > policy.json
              culvert pin check policy.json --days 30       check today's servers
              culvert pin rehearse policy.json next.csr     check the next key
              culvert pin keygen --out signing.key          generate a signing key
              culvert pin sign --key signing.key ...        sign a policy

            Exit status: 0, 1, 2, 6; see culvert-pin(1).
            """,
        version: "culvert-pin \(programVersion)",
        subcommands: [Show.self, Check.self, Rehearse.self, Keygen.self, Sign.self, Verify.self])

    /// The options of several commands.
    struct RootOptions: ParsableArguments {
        @Option(
            help: ArgumentHelp("Trust the certificates of this PEM file instead of the system's.", valueName: "file"),
            completion: .file())
        var roots: String?
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the certificates of a server, or the content of a file, with their pins.",
            discussion: """
                HOST is a name or an address, with :PORT if it is not 443. FILE contains certificates, signing requests or keys \
                in PEM or DER. A target that contains a slash or exists is a file, and - is standard input. Of private keys, \
                only the public key is used, and the private key is never printed.

                The policy pins the key of the server's own certificate. A policy that enforces pins needs a backup: pass \
                your own with --backup. Otherwise the issuer's key is the backup, and any certificate of this authority passes.

                Examples:
                  culvert pin show api.example.com
                  culvert pin show --backup next.csr --policy api.example.com > policy.json
                  culvert pin show --connect 127.0.0.1:8443 --roots test-ca.pem api.example.com
                  culvert pin show --json server.pem

                Exit status: 0, 2, 6; see culvert-pin(1).
                """)

        @Argument(help: ArgumentHelp("The server or file.", valueName: "host|file"), completion: .file())
        var target: String

        @Option(help: ArgumentHelp("Connect to this address instead of the host's.", valueName: "host:port"))
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
            abstract: "Check whether servers pass a policy, and for how many days.",
            discussion: """
                Connect to each host and evaluate it as an app with this policy would. It passes if a pin matches, and its \
                certificates and the pins are valid for long enough. A server that an app accepts only because of a lenient \
                policy (audit, permissive, fallback, expired pins) does not pass. Without HOST, all exact hosts of the policy \
                are checked.

                Examples:
                  culvert pin check policy.json
                  culvert pin check --days 30 policy.json api.example.com www.example.com:8443
                  culvert pin check --json policy.json | jq '.hosts[] | select(.passes | not)'

                Exit status: 0, 1, 2, 6; see culvert-pin(1).
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Argument(help: ArgumentHelp("The servers, with :PORT if it is not 443.", valueName: "host"))
        var hosts: [String] = []

        @Option(help: ArgumentHelp("The minimum number of days for which they must pass.", valueName: "days"))
        var days = 7

        @Option(help: ArgumentHelp("The environment, if the policy has several.", valueName: "name"))
        var environment: String?

        @Option(help: ArgumentHelp("Connect to this address instead (one host only).", valueName: "host:port"))
        var connect: String?

        @OptionGroup var roots: RootOptions

        @Flag(help: "Print one JSON document.")
        var json = false

        func validate() throws {
            guard days >= 0 else { throw ValidationError("--days must not be negative") }
            guard connect == nil || hosts.count == 1 else {
                throw ValidationError("--connect requires exactly one host")
            }
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
            abstract: "Check whether the next key or certificate passes a shipped policy.",
            discussion: """
                FILE contains the next key, signing request, public key or certificate, in PEM or DER. Add certificates of its \
                issuers to the file, or pass them with --issuers. A certificate is evaluated as an app would. A key is compared \
                with the pins of leaves, and the issuers with those of authorities. --at sets another date.

                Examples:
                  culvert pin rehearse policy.json next.csr
                  culvert pin rehearse --issuers ca.pem policy.json next.key
                  culvert pin rehearse --at 2027-01-01 policy.json next-chain.pem

                Exit status: 0, 1, 2; see culvert-pin(1).
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Argument(
            help: ArgumentHelp("The next key or certificate of the server.", valueName: "file"), completion: .file())
        var file: String

        @Option(help: ArgumentHelp("The host, if the policy lists several.", valueName: "host"))
        var host: String?

        @Option(
            help: ArgumentHelp("The certificates of its issuers.", valueName: "file"),
            completion: .file())
        var issuers: String?

        @Option(help: ArgumentHelp("The date to check, as 2027-01-31 (default today).", valueName: "date"))
        var at: String?

        @Option(help: ArgumentHelp("The environment, if the policy has several.", valueName: "name"))
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
