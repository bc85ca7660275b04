// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import ArgumentParser
    import CommandLineSupport
    import CommandLineTesting
    import Gateway
    import PacketTunnelLinux
    import Testing

    @testable import culvert_gateway

    @Suite("Contract of culvert-gateway", .timeLimit(.minutes(2)))
    struct CommandLineContractTests {
        /// The arguments of the commands that need some.
        private static let arguments = [
            "peer show": ["sample"], "peer set": ["sample"], "peer revoke": ["sample"], "user add": ["anna"],
            "user show": ["sample"], "user set": ["sample"], "user remove": ["sample"],
            "user password": ["sample", "--remove"], "token revoke": [AnsweringSocket.id],
            "invitation revoke": [AnsweringSocket.id],
            "rule add": ["allow", "--user", "sample"], "rule list": ["--user", "sample"],
            "rule remove": [AnsweringSocket.id, "--user", "sample"], "rule clear": ["--user", "sample"],
            "cooldown clear": ["--all"],
        ]

        @Test("docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert-gateway")
        func contract() async throws {
            var contract = try ProgramContract(dump: GatewayCommand._dumpHelp())
            try await Folder.use { folder in
                let captured = CapturedConsole()
                try folder.initialize(["vpn.example.com", "--json"], captured.console())
                try contract.add("culvert-gateway init --json", [captured.output])
                let activated = CapturedConsole()
                try await BackupKeyTool(console: activated.console(), directory: folder.gateway, json: true)
                    .activate("\(folder.path)/backup.key", newBackupKey: "\(folder.path)/backup-2.key")
                try contract.add("culvert-gateway key activate-backup --json", [activated.output])
                // The other commands send requests. Their answers have all optional members the first time, and none
                // the second time.
                for command in contract.commandsWithJSON {
                    let name = String(command.dropFirst("culvert-gateway ".count))
                    var outputs: [String] = []
                    for isFull in [true, false] {
                        let api = try AnsweringSocket(folder, isFull: isFull)
                        outputs.append(try await api.output(of: name, Self.arguments[name] ?? []))
                        if name == "login-tunnel", isFull {
                            let file = ["--preshared-key-file", "\(folder.path)/psk"]
                            outputs.append(try await api.output(of: name, file))
                        }
                    }
                    try contract.add("\(command) --json", open: ["entries[].details"], outputs)
                }
            }
            let problems = try contract.check()
            #expect(problems.isEmpty, "\(ContractFile.advice)")
        }
    }

    @Suite("Requests of culvert-gateway's commands", .timeLimit(.minutes(2)))
    struct CommandRequestTests {
        @Test("The answering socket refuses a body or a query that the route does not declare")
        func refusals() async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let api = try AnsweringSocket(folder, isFull: true)
                let id = AnsweringSocket.id
                for (method, target, body, status, words) in [
                    ("POST", "/v1/users", #"{"login":"anna"}"#, 201, id),
                    ("POST", "/v1/users", #"{"login":"anna","nmae":"x"}"#, 400, "nmae"),
                    ("POST", "/v1/users", #"{"name":"x"}"#, 400, "login"),
                    ("PATCH", "/v1/users/\(id)", #"{"deviceLimit":"1"}"#, 400, "deviceLimit"),
                    ("PATCH", "/v1/users/anna", "{}", 404, "this user does not exist"),
                    ("DELETE", "/v1/users/\(id)", "{}", 400, "body"),
                    ("GET", "/v1/devices?user=\(id)", "", 200, "items"),
                    ("GET", "/v1/devices?usr=\(id)", "", 400, "query"),
                    ("GET", "/v1/devices?user=anna", "", 400, "user"),
                    ("GET", "/v1/users?limit=501", "", 400, "limit"),
                ] as [(String, String, String, Int, String)] {
                    let reply = try await api.reply(to: method, target, Array(body.utf8))
                    #expect(
                        reply.status == status && reply.body.contains(words), "\(method) \(target) \(body): \(reply)")
                }
            }
        }

        @Test("A command checks its request before it is sent")
        func checkedFirst() async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let api = try AnsweringSocket(folder, isFull: true)
                let long = String(repeating: "a", count: 65)
                for (command, arguments, words, requests) in [
                    (
                        "token add", [long, "--scope", "readOnly", "--output", "-"],
                        "name: must have 1 to 64 characters, not 65", []
                    ),
                    (
                        "invite", ["anna", "--device", long], "deviceName: must have 0 to 64 characters, not 65",
                        ["GET /v1/users?login=anna"]
                    ),
                ] as [(String, [String], String, [String])] {
                    api.forgetRequests()
                    let outcome = try await api.run(command, arguments)
                    #expect(outcome.status == ExitStatus.usage && outcome.output.contains(words), "\(outcome)")
                    #expect(api.requests == requests)
                }
            }
        }
    }
#endif
