// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CommandLineTesting
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnelLinux
    import Provisioning
    import Synchronization
    import Testing
    import TunnelIO
    import TunnelSystem

    @testable import Gateway

    /// An administrators' socket that refuses requests that are not valid, as a gateway does, and answers valid requests with a
    /// sample of the reply in the OpenAPI document.
    final class AnsweringSocket: Sendable {
        private let listener: UnixListener
        private let path: String
        private let routes: [ServedRoute]
        private let document: JSON
        private let isFull: Bool
        private let received = Mutex<[String]>([])
        private let prepared = Mutex<[UInt8]?>(nil)
        private static let patience: Int64 = 60 * LaneClock.nanosecondsPerSecond
        /// The ID of everything in the samples.
        static let id = String(repeating: "a", count: 26)

        /// The method and the target of each request.
        var requests: [String] { received.withLock { $0 } }

        func forgetRequests() { received.withLock { $0 = [] } }

        /// Sends these bytes instead of each further reply, and ends the connection.
        func answer(with bytes: [UInt8]) { prepared.withLock { $0 = bytes } }

        /// - Parameter isFull: Whether replies have all optional members.
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
                invitations: InvitationTemplate(
                    host: settings.host, port: 8443, pins: [pins.active, pins.backup], label: ""),
                loginTunnel: LoginTunnelPlace(
                    server: try EndpointAddress(host: settings.host, port: 4500), keys: try directory.loginKeys())
            ).register(in: &list)
            routes = list.routes
            document = OpenAPIDocument(title: "", version: "", routes: list.routes.map(\.description)).json
        }

        /// Runs a command with `--json`, and answers its requests until it ends.
        func output(of command: String, _ arguments: [String]) async throws -> String {
            let outcome = try await run(command, arguments + ["--json"])
            guard outcome.status == 0 else { throw CommandFailure("'\(command)' failed: \(outcome.output)") }
            return outcome.output
        }

        /// Runs a command, and answers its requests until it ends.
        func run(_ command: String, _ arguments: [String]) async throws -> ChildProcess.Outcome {
            let words = command.split(separator: " ").map(String.init)
            let child = try Self.start(words + arguments + ["--socket", path])
            let deadline = LaneClock.now() + Self.patience
            while true {
                switch child.wait(until: deadline, interruption: listener.descriptor.number) {
                case .interrupted: try await answer()
                case .timedOut:
                    child.destroy()
                    throw CommandFailure("'\(command)' did not end")
                case .ended(let outcome): return outcome
                }
            }
        }

        private static func start(_ arguments: [String]) throws -> ChildProcess {
            let bundle = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let program = URL(filePath: bundle).deletingLastPathComponent().appending(path: "culvert-gateway").path
            return try ChildProcess(program, arguments: [program] + arguments, environment: [])
        }

        /// Runs a command that uses no socket.
        static func run(_ arguments: [String]) throws -> ChildProcess.Outcome {
            guard case .ended(let outcome) = try start(arguments).wait(until: LaneClock.now() + patience) else {
                throw CommandFailure("\(arguments) did not end")
            }
            return outcome
        }

        private func answer() async throws {
            guard case .connection(let connection) = listener.accept() else { return }
            var request: [UInt8] = []
            while !Self.isWhole(request) {
                try #require(ChildProcess.ready([connection.number], until: LaneClock.now() + Self.patience) != nil)
                var chunk = [UInt8](repeating: 0, count: 4096)
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(connection.number, into: $0) }
                try #require(count > 0)
                request += chunk.prefix(count)
            }
            let line = String(decoding: request, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            received.withLock { $0.append("\(line[0]) \(line[1])") }
            if let bytes = prepared.withLock({ $0 }) {
                // The bytes may be more than the socket's buffer.
                _ = fcntl(connection.number, F_SETFL, 0)
                _ = SystemCall.writeAll(connection.number, bytes)
                return
            }
            let end = try #require(request.firstRange(of: Array("\r\n\r\n".utf8)))
            let (status, body) = try await reply(to: line[0], line[1], Array(request[end.upperBound...]))
            let head = "HTTP/1.1 \(status) OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
            try #require(SystemCall.writeAll(connection.number, Array((head + body).utf8)))
        }

        private static func isWhole(_ request: [UInt8]) -> Bool {
            guard let end = request.firstRange(of: Array("\r\n\r\n".utf8)) else { return false }
            let head = String(decoding: request[..<end.lowerBound], as: UTF8.self)
            let length = head.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }
            return request.count - end.upperBound >= length.flatMap { Int($0.dropFirst(16)) } ?? 0
        }

        // MARK: - Replies

        /// The reply to a request: a sample, or the problem of a request that is not valid.
        func reply(to method: String, _ target: String, _ body: [UInt8]) async throws -> (status: Int, body: String) {
            let parts = target.split(separator: "?", maxSplits: 1).map(String.init)
            let path = parts[0].split(separator: "/")
            let route = try #require(
                routes.first { route in
                    let template = route.description.path.split(separator: "/")
                    return route.description.methodName == method && template.count == path.count
                        && zip(template, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
                }, "\(method) \(target)")
            do throws(GatewayError) {
                try await check(route, path, query: parts.count > 1 ? parts[1] : nil, body)
            } catch {
                return (error.problem.status, String(decoding: error.problem.body, as: UTF8.self))
            }
            let reply = try #require(route.description.replies.first { (200..<300).contains($0.status) })
            guard let schema = reply.schema, reply.mediaType == "application/json" else { return (reply.status, "") }
            return (reply.status, sample(schema.json).line)
        }

        /// Decodes a request as a gateway does, and passes it to a gateway without users.
        /// - Throws: The refusal of a request that is not valid. Other refusals are ignored: the gateway does not have
        ///   the samples.
        private func check(
            _ route: ServedRoute, _ path: [Substring], query: String?, _ body: [UInt8]
        ) async throws(GatewayError) {
            let names = route.description.path.split(separator: "/")
            let request = APIRequest(
                caller: .local(0), source: .process(user: 0),
                ids: try route.description.ids { name in zip(names, path).first { $0.0 == "{\(name)}" }?.1 },
                query: try RequestFields.query(query, route.description.parameters.filter { $0.place == .query }),
                body: body)
            guard route.description.body != nil || body.isEmpty else {
                throw .invalid(field: "body", problem: "the route has no body")
            }
            do throws(GatewayError) { _ = try await route.answer(request) } catch {
                if error.category == .invalid { throw error }
            }
        }

        // MARK: - Samples

        private func sample(_ schema: JSON) -> JSON {
            if case .string(let reference)? = schema["$ref"] {
                let name = reference.split(separator: "/").last.map(String.init) ?? ""
                return document["components"]?["schemas"]?[name].map(sample) ?? .null
            }
            if case .array(let choices)? = schema["anyOf"] {
                return isFull ? choices.first.map(sample) ?? .null : .null
            }
            // The sample of a device is that of a stock client.
            if case .array(let values)? = schema["enum"] {
                return values.first { $0 == "exported" } ?? values.first ?? .null
            }
            switch schema["type"] {
            case .string("string"):
                return schema["pattern"] == JSONSchema.id.json["pattern"] ? .string(Self.id) : "sample"
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
            // A command requests the next page while a page names one.
            let isPage = properties.names == ["items", "next"]
            return .object(
                of: properties.names.compactMap { name in
                    guard required.contains(.string(name)) || (isFull && !isPage) else { return nil }
                    return properties[name].map { (name, sample($0)) }
                })
        }
    }
#endif
