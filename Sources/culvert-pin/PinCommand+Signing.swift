// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

extension PinKeyKind: ExpressibleByArgument {}

extension PinCommand {
    struct Keygen: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Generate a key that signs policies.",
            discussion: """
                Write the private key to a new file that only its owner can read, and print the public key to build into \
                the app. Do not copy the file to servers that distribute policies. An hmac secret has no public key: it \
                is in each app, so policies that it signs may only tighten the app's policies.

                Examples:
                  culvert pin keygen --out signing.key > signing.pub
                  culvert pin keygen --kind p384 --out signing.key --json

                Exit status: 0, 2; see culvert-pin(1).
                """)

        @Option(help: "The kind of key: ed25519, p256, p384 or hmac.")
        var kind = PinKeyKind.ed25519

        @Option(
            help: ArgumentHelp("The new file for the private key; it must not exist.", valueName: "file"),
            completion: .file())
        var out: String

        @Flag(help: "Print one JSON document.")
        var json = false

        func run() throws { try finish(PinSigning(environment: .standard, json: json).generate(kind, to: out)) }
    }

    struct Sign: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sign a policy as remote configuration.",
            discussion: """
                Print an envelope: the policy, its app and environment, and a signature. Apps accept it only with a higher \
                version than their current one. Other users must not be able to read the key file.

                Examples:
                  culvert pin sign --key signing.key --key-id 2026a --app com.example.app \\
                      --version 7 policy.json > policy.signed.json
                  culvert pin sign --key signing.key --key-id 2026a --app com.example.app \\
                      --environment acceptance --version 8 --days 14 policy.json

                Exit status: 0, 2; see culvert-pin(1).
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Option(
            help: ArgumentHelp("The private key, from keygen or openssl genpkey.", valueName: "file"),
            completion: .file())
        var key: String

        @Option(help: ArgumentHelp("The key's name in the app.", valueName: "name"))
        var keyID: String

        @Option(help: ArgumentHelp("The identifier of the app.", valueName: "id"))
        var app: String

        @Option(help: ArgumentHelp("The environment of the app.", valueName: "name"))
        var environment = "production"

        @Option(help: ArgumentHelp("The version: that of the last envelope plus one.", valueName: "number"))
        var version: Int64

        @Option(help: ArgumentHelp("Days for which apps accept it as an update.", valueName: "days"))
        var days = 30

        @Option(help: ArgumentHelp("The issue time, as 2027-01-31T12:00:00Z (default now).", valueName: "time"))
        var issued: String?

        @Flag(help: "Accepted for consistency with other commands; an envelope is always JSON.")
        var json = false

        func validate() throws {
            guard (1...36_500).contains(days) else { throw ValidationError("--days must be between 1 and 36500") }
        }

        func run() throws {
            let terms = PinSigning.Terms(
                appID: app, environment: environment, keyID: keyID, version: version, issued: issued, days: days)
            try finish(PinSigning(environment: .standard).sign(policy, keyFile: key, terms))
        }
    }

    struct Verify: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Verify a signed policy as an app would.",
            discussion: """
                Examples:
                  culvert pin verify --key signing.pub --app com.example.app policy.signed.json
                  culvert pin verify --key signing.pub --app com.example.app \\
                      --policy policy.signed.json | culvert pin check -
                  culvert pin verify --key signing.pub --app com.example.app \\
                      --lowest-version 7 --json policy.signed.json

                Exit status: 0, 1, 2; see culvert-pin(1).
                """)

        @Argument(help: ArgumentHelp("An envelope; - is standard input.", valueName: "envelope"), completion: .file())
        var envelope: String

        @Option(
            help: ArgumentHelp("The public key in PEM, or the shared secret.", valueName: "file"), completion: .file())
        var key: String

        @Option(help: ArgumentHelp("The required name of the key (default: any name).", valueName: "name"))
        var keyID: String?

        @Option(help: ArgumentHelp("The identifier of the app.", valueName: "id"))
        var app: String

        @Option(help: ArgumentHelp("The environment of the app.", valueName: "name"))
        var environment = "production"

        @Option(help: ArgumentHelp("The lowest version that the app accepts.", valueName: "number"))
        var lowestVersion: Int64 = 1

        @Option(help: ArgumentHelp("The time to verify at, as 2027-01-31T12:00:00Z (default now).", valueName: "time"))
        var at: String?

        @Flag(help: "Print only the envelope's policy.")
        var policy = false

        @Flag(help: "Print one JSON document.")
        var json = false

        func run() throws {
            let signing = PinSigning(environment: .standard, json: json)
            try finish(
                signing.verify(
                    envelope, keyFile: key, appID: app, environmentName: environment, keyID: keyID,
                    lowestVersion: lowestVersion, at: at, onlyPolicy: policy))
        }
    }
}
