// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import ArgumentParser
    import CommandLineSupport
    import CommandLineTesting
    import Foundation
    import Gateway
    import Logging
    import PacketTunnelLinux
    import Testing
    import TunnelIO
    import TunnelSystem

    @testable import culvert_gateway

    @Suite("Contract of culvert-gateway", .timeLimit(.minutes(2)))
    struct CommandLineContractTests {
        /// The arguments of the commands that need some.
        private static let arguments = [
            "peer show": ["sample"], "peer set": ["sample"], "peer revoke": ["sample"], "user add": ["anna"],
            "user show": ["sample"], "user set": ["sample"], "user remove": ["sample"],
            "user password": ["sample", "--remove"], "token revoke": ["sample"], "invitation revoke": ["sample"],
            "rule add": ["allow", "--user", "sample"], "rule list": ["--user", "sample"],
            "rule remove": ["sample", "--user", "sample"], "rule clear": ["--user", "sample"],
            "cooldown clear": ["--all"],
        ]

        @Test("docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert-gateway")
        func contract() throws {
            var contract = try ProgramContract(dump: GatewayCommand._dumpHelp())
            try Folder.with { folder in
                let captured = CapturedConsole()
                try folder.initialize(["vpn.example.com", "--json"], captured.console())
                try contract.add("culvert-gateway init --json", [captured.output])
                // The other commands ask the gateway: once its answers have all optional members, once none.
                for command in contract.commandsWithJSON {
                    let name = String(command.dropFirst("culvert-gateway ".count))
                    var outputs: [String] = []
                    for isFull in [true, false] {
                        let api = try AnsweringSocket(folder, isFull: isFull)
                        outputs.append(try api.output(of: name, Self.arguments[name] ?? []))
                        if name == "login-tunnel", isFull {
                            let file = ["--preshared-key-file", "\(folder.path)/psk"]
                            outputs.append(try api.output(of: name, file))
                        }
                    }
                    try contract.add("\(command) --json", open: ["entries[].details"], outputs)
                }
            }
            let problems = try contract.check()
            #expect(problems.isEmpty, "\(ContractFile.advice)")
        }
    }

    /// An administrators' socket that answers each request with a sample of the reply in the OpenAPI document.
    private final class AnsweringSocket: Sendable {
        private let listener: UnixListener
        private let path: String
        private let document: JSON
        private let isFull: Bool
        private static let patience: Int64 = 60 * LaneClock.nanosecondsPerSecond

        /// - Parameter isFull: whether answers have the members that may be missing.
        init(_ folder: Folder, isFull: Bool) throws {
            path = "\(folder.path)/admin.sock"
            listener = try UnixListener(path: path)
            self.isFull = isFull
            let directory = try GatewayDirectory(existing: folder.gateway)
            let (settings, pins) = (try directory.settings(), try directory.pins())
            let service = try GatewayService(
                store: GatewayStore.inMemory(), keys: directory, settings: settings,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            var list = RouteList()
            AdminRoutes(
                service,
                invitations: InvitationPlace(
                    host: settings.host, port: 8443, pins: [pins.active, pins.backup], label: ""),
                loginTunnel: LoginTunnelPlace(host: settings.host, port: 4500, keys: try directory.loginKeys())
            ).register(in: &list)
            document = OpenAPIDocument(title: "", version: "", routes: list.routes.map(\.description)).json
        }

        /// Runs a command with `--json`, and answers its requests until it ends.
        func output(of command: String, _ arguments: [String]) throws -> String {
            let bundle = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let program = URL(filePath: bundle).deletingLastPathComponent().appending(path: "culvert-gateway").path
            let words = command.split(separator: " ").map(String.init)
            let child = try ChildProcess(
                program, arguments: [program] + words + arguments + ["--json", "--socket", path], environment: [])
            let deadline = LaneClock.now() + Self.patience
            while true {
                switch child.wait(until: deadline, interruption: listener.descriptor.number) {
                case .interrupted: try answer()
                case .timedOut:
                    child.destroy()
                    throw CommandFailure("'\(command)' did not end")
                case .ended(let outcome):
                    guard outcome.status == 0 else { throw CommandFailure("'\(command)' failed: \(outcome.output)") }
                    return outcome.output
                }
            }
        }

        private func answer() throws {
            guard case .connection(let connection) = listener.accept() else { return }
            var request: [UInt8] = []
            while !Self.isWhole(request) {
                try #require(ChildProcess.ready([connection.number], until: LaneClock.now() + Self.patience) != nil)
                var chunk = [UInt8](repeating: 0, count: 4096)
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(connection.number, into: $0) }
                try #require(count > 0)
                request += chunk.prefix(count)
            }
            let line = String(decoding: request, as: UTF8.self).split(separator: " ", maxSplits: 2)
            let target = line[1].split(separator: "?")[0]
            let (status, body) = try reply(to: line[0].lowercased(), target.split(separator: "/"))
            let head = "HTTP/1.1 \(status) OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
            try #require(SystemCall.writeAll(connection.number, Array((head + body).utf8)))
        }

        private static func isWhole(_ request: [UInt8]) -> Bool {
            guard let end = request.firstRange(of: Array("\r\n\r\n".utf8)) else { return false }
            let head = String(decoding: request[..<end.lowerBound], as: UTF8.self)
            let length = head.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }
            return request.count - end.upperBound >= length.flatMap { Int($0.dropFirst(16)) } ?? 0
        }

        // MARK: - Samples

        private func reply(to method: String, _ path: [Substring]) throws -> (status: String, body: String) {
            let paths = try #require(document["paths"])
            let template = paths.names.first { name in
                let parts = name.split(separator: "/")
                let fits = parts.count == path.count && zip(parts, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
                return fits && paths[name]?[method] != nil
            }
            let operation = template.flatMap { paths[$0]?[method] }
            let responses = try #require(operation?["responses"], "\(method) \(path)")
            let status = try #require(responses.names.first { $0.hasPrefix("2") })
            guard let schema = responses[status]?["content"]?["application/json"]?["schema"] else {
                return (status, "")
            }
            return (status, sample(schema).line)
        }

        private func sample(_ schema: JSON) -> JSON {
            if case .string(let reference)? = schema["$ref"] {
                let name = reference.split(separator: "/").last.map(String.init) ?? ""
                return document["components"]?["schemas"]?[name].map(sample) ?? .null
            }
            if case .array(let choices)? = schema["anyOf"] {
                return isFull ? choices.first.map(sample) ?? .null : .null
            }
            if case .array(let values)? = schema["enum"] { return values.first ?? .null }
            switch schema["type"] {
            case .string("string"): return "sample"
            case .string("integer"): return .integer(1)
            case .string("boolean"): return true
            case .string("array"): return .array(schema["items"].map { [sample($0)] } ?? [])
            default: return object(schema)
            }
        }

        private func object(_ schema: JSON) -> JSON {
            guard let properties = schema["properties"] else { return ["name": "sample"] }
            var required: [JSON] = []
            if case .array(let names)? = schema["required"] { required = names }
            // A command asks for the next page for as long as a page names one.
            let isPage = properties.names == ["items", "next"]
            return .object(
                of: properties.names.compactMap { name in
                    guard required.contains(.string(name)) || (isFull && !isPage) else { return nil }
                    return properties[name].map { (name, sample($0)) }
                })
        }
    }
#endif
