// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import HTTPTypes
import Logging
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import Provisioning
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

/// A gateway's API on loopback, with a store in memory, and a client that sends arbitrary requests.
///
/// Each reply is compared with the documentation of its route: the status, the media type and the schema.
final class APIBench: Sendable {
    /// A listener of the gateway, or a socket whose user is not the user of the test.
    enum Side: String, Sendable, CaseIterable { case device, admin, addKey, socket, foreignSocket }

    let service: GatewayService
    let store: GatewayStore
    let log: CapturedLog
    private let listeners: [Side: HTTPListener]
    private let ports: [Side: Int]
    private let sockets: [Side: String]
    /// The routes of the listeners.
    private let descriptions: [Side: [RouteDescription]]
    let lists: GatewayRoutes
    let place: InvitationTemplate
    /// The state that `/ready` reports.
    let readiness = ReadinessBox()
    private let random = RandomSource()

    static func use(
        limits: HTTPLimits = HTTPLimits(), isOnDisk: Bool = false, settings: (inout GatewaySettings) -> Void = { _ in },
        _ body: (APIBench) async throws -> Void
    ) async throws {
        try await TestFolder.use { folder in
            let bench = try await APIBench(folder, limits, isOnDisk, settings)
            let serving = bench.listeners.values.map { listener in Task { await listener.run() } }
            do { try await body(bench) } catch {
                for listener in bench.listeners.values { await listener.stop(within: .zero) }
                throw error
            }
            for listener in bench.listeners.values { await listener.stop(within: .zero) }
            for task in serving { await task.value }
        }
    }

    private init(
        _ folder: String, _ limits: HTTPLimits, _ isOnDisk: Bool, _ change: (inout GatewaySettings) -> Void
    ) async throws {
        var settings = GatewaySettings()
        settings.host = "127.0.0.1"
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd00:66::1/64")]
        change(&settings)
        let directory = try GatewayDirectory.make(folder + "/gateway", settings, backupKey: folder + "/backup.key")
        log = CapturedLog()
        let logger = log.logger
        store = try isOnDisk ? directory.openStore() : .inMemory()
        service = try GatewayService(
            store: store, keys: directory, settings: settings, passwordCost: PasswordHash.Cost(n: 16, r: 8, p: 1),
            logger: logger)
        let pins = try directory.pins()
        place = InvitationTemplate(host: "127.0.0.1", port: 8443, pins: [pins.active, pins.backup], label: "Test")
        var parts = GatewayAPI.Parts(
            device: try directory.apiCertificate(), invitations: place, socketUser: 0, version: "1")
        parts.runtimeMetrics = { RuntimeFigures().families }
        parts.readiness = { [readiness] in readiness.value.withLock { $0 } }
        parts.backup = { (passphrase, _) async throws(GatewayError) in
            ReplyStream { send in for byte in passphrase.reversed() { try await send([byte]) } }
        }
        let routes = GatewayRoutes(service, parts)
        lists = routes
        let addKey = try routes.addKey(settings)
        let lists = [
            Side.device: routes.device, .admin: routes.admin, .addKey: addKey, .socket: routes.admin,
            .foreignSocket: routes.admin,
        ]
        descriptions = lists.mapValues { $0.routes.map(\.description) }
        let users: [Side: Set<UInt32>] = [.socket: [geteuid()], .foreignSocket: [geteuid() + 1]]
        sockets = users.keys.reduce(into: [:]) { $0[$1] = "\(folder)/\($1).sock" }
        var (listeners, ports): ([Side: HTTPListener], [Side: Int]) = ([:], [:])
        for (side, list) in lists {
            let responder = APIResponder(
                name: side.rawValue, routes: list, service: service, socketUsers: users[side],
                metrics: parts.registry, logger: logger)
            let place: HTTPListener.Place =
                if let socket = sockets[side] { .unix(try UnixListener(path: socket)) } else {
                    .address("127.0.0.1", port: 0)
                }
            let listener = HTTPListener(
                name: side.rawValue, place: place, tls: nil, limits: limits, responder: responder, logger: logger)
            ports[side] = try await listener.open()
            listeners[side] = listener
        }
        (self.listeners, self.ports) = (listeners, ports)
    }

    /// The routes of a listener.
    func routes(_ side: Side) -> [RouteDescription] { descriptions[side] ?? [] }

    /// Finds the route of a request without the router.
    private func route(_ method: String, _ path: String, _ side: Side) -> RouteDescription? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        return routes(side).first { route in
            let template = route.path.split(separator: "/", omittingEmptySubsequences: false)
            return route.methodName == method && template.count == parts.count
                && zip(template, parts).allSatisfy { $0 == $1 || $0.hasPrefix("{") && !$1.isEmpty }
        }
    }

    // MARK: - Requests

    struct Reply {
        var status: Int
        var headers: [String: String]
        var body: String
        var json: JSONValue

        var code: String? { json["code"]?.text }
    }

    /// Sends a request, and checks that the reply is documented.
    func ask(
        _ method: String, _ path: String, on side: Side = .admin, bearer: String? = nil, _ body: String? = nil,
        headers: [String] = [], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Reply {
        var head = ["\(method) \(path) HTTP/1.1", "Host: 127.0.0.1", "Connection: close"] + headers
        if let bearer { head.append("Authorization: Bearer \(bearer)") }
        if let body {
            head.append("Content-Length: \(body.utf8.count)")
            if !headers.contains(where: { $0.lowercased().hasPrefix("content-type") }) {
                head.append("Content-Type: application/json")
            }
        }
        let reply = try await send(head.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? ""), on: side)
        check(reply, method, String(path.prefix { $0 != "?" }), side, sourceLocation)
        return reply
    }

    /// Sends bytes without changes.
    func send(_ bytes: String, on side: Side = .admin) async throws -> Reply {
        let client =
            if let path = sockets[side] { try await RawClient.connect(path: path) } else {
                try await RawClient.connect(try #require(ports[side]))
            }
        client.send(bytes)
        let text = try await client.rest()
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let lines = parts[0].split(separator: "\r\n")
        let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let pair = line.split(separator: ":", maxSplits: 1)
            headers[pair[0].lowercased()] = pair.count > 1 ? String(pair[1].dropFirst()) : ""
        }
        let body = parts.count > 1 ? String(parts[1]) : ""
        let json = (try? JSONDecoder().decode(JSONValue.self, from: Data(body.utf8))) ?? .null
        return Reply(status: try #require(status, "no HTTP: \(text)"), headers: headers, body: body, json: json)
    }

    private func check(
        _ reply: Reply, _ method: String, _ path: String, _ side: Side, _ sourceLocation: SourceLocation
    ) {
        #expect(
            reply.headers["cache-control"] == "no-store" && reply.headers["date"] != nil, sourceLocation: sourceLocation
        )
        if reply.status >= 400 {
            #expect(reply.headers["content-type"] == "application/problem+json", sourceLocation: sourceLocation)
            // `/ready` has a separate schema.
            if path != "/ready" {
                #expect(SchemaCheck.problems(reply.json, ModelSchemas.problem) == [], sourceLocation: sourceLocation)
            }
            #expect(reply.json["status"] == .integer(Int64(reply.status)), sourceLocation: sourceLocation)
            for word in ["SQL", "sqlite", "GRDB", "Swift", ".swift", "Error("] {
                #expect(!reply.body.contains(word), sourceLocation: sourceLocation)
            }
        }
        // Skip this listener: routes without authorisation do not document that the socket refuses other users.
        guard side != .foreignSocket, let route = route(method, path, side) else { return }
        let documented = route.replies.first { $0.status == reply.status }
        #expect(
            documented != nil || route.refusals.contains(reply.status),
            "\(method) \(route.path) says nothing of \(reply.status): \(reply.body)", sourceLocation: sourceLocation)
        guard let schema = documented?.schema, documented?.mediaType.hasSuffix("json") == true else { return }
        #expect(
            SchemaCheck.problems(reply.json, schema) == [], "\(method) \(route.path): \(reply.body)",
            sourceLocation: sourceLocation)
    }

    // MARK: - Callers

    /// The secret of a new token.
    func token(_ scope: Token.Scope, of user: UserID? = nil) async throws -> String {
        try await service.addToken(TokenDraft(scope: scope, userID: user, name: "\(scope)"), .local(0))
            .secret.exportedText
    }

    func user(_ login: String) async throws -> UserID {
        try await service.addUser(UserDraft(login: login), .local(0)).item.id
    }

    func newUser() async throws -> UserID { try await user("user\(UInt64.random(in: 0..<UInt64.max))") }

    func invitation(for user: UserID) async throws -> String {
        try await service.addInvitation(InvitationDraft(userID: user), .local(0)).secret.exportedText
    }

    struct Enrolled {
        var key: PrivateKey
        var credential: String
        var body: String
        var invitation: String
        var id: String
    }

    /// A body for an enrolment, with its key and credential.
    func enrolment() -> (key: PrivateKey, credential: String, body: String) {
        var random = random
        let key = PrivateKey(using: &random)
        let credential = BearerSecret(.device, using: &random).exportedText
        let body = #"{"publicKey":"\#(key.publicKey.base64)","credential":"\#(credential)","name":"phone"}"#
        return (key, credential, body)
    }

    func enrol(_ user: UserID) async throws -> Enrolled {
        let invitation = try await invitation(for: user)
        let (key, credential, body) = enrolment()
        let reply = try await ask("POST", EnrolmentPath.enrolments, on: .device, bearer: invitation, body)
        #expect(reply.status == 201)
        return Enrolled(
            key: key, credential: credential, body: body, invitation: invitation,
            id: try #require(reply.json["device"]?["id"]?.text))
    }
}

/// A readiness that tests can change.
final class ReadinessBox: Sendable {
    let value = Mutex(Readiness())
}

extension JSONValue {
    subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    var list: [JSONValue]? {
        guard case .array(let items) = self else { return nil }
        return items
    }
}

/// Collects the log.
final class CapturedLog: Sendable {
    private let lines = Mutex<[String]>([])

    var text: String { lines.withLock { $0.joined(separator: "\n") } }

    var logger: Logger {
        Logger(label: "test") { [self] _ in
            var handler = Handler(log: self)
            handler.logLevel = .trace
            return handler
        }
    }

    private struct Handler: LogHandler {
        let log: CapturedLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        init(log: CapturedLog) { self.log = log }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            log.lines.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
        }
    }
}

/// Checks that JSON conforms to a schema.
enum SchemaCheck {
    static func problems(_ json: JSONValue, _ schema: JSONSchema, at path: String = "$") -> [String] {
        switch (schema, json) {
        case (.named(let name), _):
            guard let found = ModelSchemas.all.first(where: { $0.name == name }) else { return ["no schema \(name)"] }
            return problems(json, found.schema, at: path)
        case (.optional(let inner), _): return json == .null ? [] : problems(json, inner, at: path)
        case (.text(let pattern, _, let length, _), .string(let text)):
            if let length, !length.contains(text.unicodeScalars.count) { return ["\(path): \(text.count) characters"] }
            guard let pattern, let regex = try? Regex(pattern) else { return [] }
            return text.wholeMatch(of: regex) == nil ? ["\(path): '\(text)' is not \(pattern)"] : []
        case (.choice(let choices), .string(let text)): return choices.contains(text) ? [] : ["\(path): \(text)"]
        case (.integer(let range, _), .integer(let value)):
            return range.map { $0.contains(value) } ?? true ? [] : ["\(path): \(value)"]
        case (.flag, .bool): return []
        case (.list(let inner, let count), .array(let items)):
            return (count.map { $0.contains(items.count) } ?? true ? [] : ["\(path): \(items.count) items"])
                + items.enumerated().flatMap { problems($1, inner, at: "\(path)[\($0)]") }
        case (.object(let members, let isClosed), .object(let values)):
            var found = members.filter { $0.isRequired && values[$0.name] == nil }.map {
                "\(path).\($0.name) is missing"
            }
            for (name, value) in values {
                if let member = members.first(where: { $0.name == name }) {
                    found += problems(value, member.schema, at: "\(path).\(name)")
                } else if isClosed || name != "openapi" {
                    // Replies document all of their members.
                    if path != "$" || members.count > 1 || isClosed {
                        found.append("\(path).\(name) is not documented")
                    }
                }
            }
            return found
        case (.texts, .object(let values)):
            return values.flatMap { problems($1, .text(), at: "\(path).\($0)") }
        default: return ["\(path): \(json) is not \(schema)"]
        }
    }
}
