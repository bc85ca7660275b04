// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

extension PinKeyKind: ExpressibleByArgument {}

extension PinCommand {
    struct Keygen: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key that signs policies.",
            discussion: """
                Writes the private key to a new file that only its owner may read, and prints the public key, which the app \
                is built with. Keep the file off the servers that hand out policies. An hmac secret has no public half: it \
                is in each app, so that what it signs may only tighten policies.

                Examples:
                  culvert pin keygen --out signing.key > signing.pub
                  culvert pin keygen --kind p384 --out signing.key --json

                Exit status: 0 made, 2 wrong usage, or the file exists or cannot be written.
                """)

        @Option(help: "ed25519, p256, p384 or hmac.")
        var kind = PinKeyKind.ed25519

        @Option(help: ArgumentHelp("The file to write; it must not exist.", valueName: "file"), completion: .file())
        var out: String

        @Flag(help: "Print one JSON document.")
        var json = false

        func run() throws { try finish(PinSigning(environment: .standard, json: json).generate(kind, to: out)) }
    }

    struct Sign: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sign a policy as remote configuration.",
            discussion: """
                Prints an envelope: the policy, what it is for, and a signature over all of it. Apps take it only with a higher \
                version than they have, so count up. The key file must not be readable for others.

                Examples:
                  culvert pin sign --key signing.key --key-id 2026a --app com.example.app --version 7 policy.json > policy.signed.json
                  culvert pin sign --key signing.key --key-id 2026a --app com.example.app --environment acceptance \
                --version 8 --days 14 policy.json

                Exit status: 0 signed, 2 wrong usage, or a file that cannot be used.
                """)

        @Argument(
            help: ArgumentHelp("A policy in JSON; - is standard input.", valueName: "policy"), completion: .file())
        var policy: String

        @Option(
            help: ArgumentHelp("The private key, as keygen and openssl genpkey write it.", valueName: "file"),
            completion: .file())
        var key: String

        @Option(help: ArgumentHelp("The name under which apps know the key.", valueName: "name"))
        var keyID: String

        @Option(help: ArgumentHelp("The identifier of the app it is for.", valueName: "id"))
        var app: String

        @Option(help: ArgumentHelp("The environment it is for.", valueName: "name"))
        var environment = "production"

        @Option(help: ArgumentHelp("One more than that of the last envelope.", valueName: "number"))
        var version: Int64

        @Option(help: ArgumentHelp("How long apps accept it as an update.", valueName: "days"))
        var days = 30

        @Option(help: ArgumentHelp("When it is issued, as 2027-01-31T12:00:00Z; now by default.", valueName: "time"))
        var issued: String?

        @Flag(help: "Accepted for likeness with the other commands: an envelope is JSON in any case.")
        var json = false

        func validate() throws {
            guard (1...36_500).contains(days) else { throw ValidationError("--days is a number from 1 to 36500") }
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
                  culvert pin verify --key signing.pub --app com.example.app --policy policy.signed.json | culvert pin check -
                  culvert pin verify --key signing.pub --app com.example.app --lowest-version 7 --json policy.signed.json

                Exit status: 0 an app would take it, 1 it would not, 2 wrong usage or an unreadable file.
                """)

        @Argument(help: ArgumentHelp("An envelope; - is standard input.", valueName: "envelope"), completion: .file())
        var envelope: String

        @Option(
            help: ArgumentHelp("The public key in PEM, or the shared secret.", valueName: "file"), completion: .file())
        var key: String

        @Option(help: ArgumentHelp("The name that the key must have; any by default.", valueName: "name"))
        var keyID: String?

        @Option(help: ArgumentHelp("The identifier of the app.", valueName: "id"))
        var app: String

        @Option(help: ArgumentHelp("The environment of the app.", valueName: "name"))
        var environment = "production"

        @Option(help: ArgumentHelp("The lowest version that the app takes.", valueName: "number"))
        var lowestVersion: Int64 = 1

        @Option(help: ArgumentHelp("The time to judge by, as 2027-01-31T12:00:00Z; now by default.", valueName: "time"))
        var at: String?

        @Flag(help: "Print the policy that is in it, and nothing else.")
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
