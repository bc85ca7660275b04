// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import Foundation
import Testing

@testable import culvert_credential_server

@Suite("Contract of culvert-credential-server")
struct CommandLineContractTests {
    @Test(
        "docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert-credential-server")
    func contract() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "culvert-server-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let password = folder.appending(path: "password").path
        try Data("a long password\n".utf8).write(to: URL(filePath: password))
        func output(_ body: (ServerTool) -> Int32) throws -> [String] {
            let captured = CapturedConsole()
            let tool = ServerTool(
                console: captured.console(), directory: folder.appending(path: "server").path,
                become: { (_) throws(CommandFailure) in })
            try #require(body(tool) == ExitStatus.success, "\(captured.error)")
            return [captured.output]
        }
        var contract = try ProgramContract(dump: ServerCommand._dumpHelp())
        try contract.add(
            "culvert-credential-server init --json",
            output {
                $0.initialize(
                    endpoint: "vpn.example.com", address4: "10.66.0.1/24", address6: nil, dns: [], owner: nil,
                    json: true)
            })
        try contract.add(
            "culvert-credential-server user add --json",
            output {
                $0.add("anna", passwordFile: password, addresses: ["10.66.0.9"], replaces: false, json: true)
            })
        try contract.add("culvert-credential-server user list --json", output { $0.list(json: true) })
        try contract.add("culvert-credential-server user remove --json", output { $0.remove("anna", json: true) })
        let problems = try contract.check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }
}
