// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Gateway
import Provisioning
import TunnelSystem

/// A client of the gateway's Unix socket, with one connection for each request.
struct AdminClient {
    var socket: String

    typealias Query = [(parameter: RouteDescription.Parameter, value: String)]

    /// Checks the body of a request, and sends the request.
    /// - Parameter ids: The values for the names in the route's path, in order.
    /// - Returns: The body of the reply, or null if it is empty.
    @discardableResult
    func send<Body, Reply>(
        _ route: Route<Body, Reply>, _ ids: String..., query: Query = [], body: Body
    ) throws(CommandFailure) -> JSON {
        try reply(route, ids, query, body)
    }

    /// Sends a request without a body.
    @discardableResult
    func send<Reply>(_ route: Route<Void, Reply>, _ ids: String..., query: Query = []) throws(CommandFailure) -> JSON {
        try reply(route, ids, query, ())
    }

    private func reply<Body, Reply>(
        _ route: Route<Body, Reply>, _ ids: [String], _ query: Query, _ body: Body
    ) throws(CommandFailure) -> JSON {
        var reply = try exchange(route, ids, query, body)
        let bytes = try reply.bytes()
        if bytes.isEmpty { return .null }
        guard let json = try? JSON.read(bytes) else {
            throw CommandFailure("the gateway's answer is not valid JSON")
        }
        return json
    }

    /// Sends a request whose reply is a stream.
    func stream<Body>(_ route: Route<Body, ReplyStream>, body: Body) throws(CommandFailure) -> AdminReply {
        try exchange(route, [], [], body)
    }

    /// Returns the items of all pages of a list.
    func all<Item>(_ route: Route<Void, Page<Item>>, query: Query = []) throws(CommandFailure) -> [JSON] {
        var items: [JSON] = []
        var after: Query = []
        repeat {
            let page = try send(route, query: query + [(Paging.limit, "\(PageRequest.most)")] + after)
            items += page["items"]?.list ?? []
            after = page["next"]?.string.map { [(Paging.after, $0)] } ?? []
        } while !after.isEmpty
        return items
    }

    private static func failure(_ status: Int, _ body: [UInt8]) -> CommandFailure {
        let problem = try? ProblemDetails(body: body)
        let exit =
            switch status {
            case 400, 409, 413: ExitStatus.usage
            case 401, 403: ExitStatus.notPermitted
            case 404: ExitStatus.notFound
            default: ExitStatus.failure
            }
        return CommandFailure(
            problem?.detail ?? problem?.title ?? "the gateway answered with status \(status)", status: exit)
    }

    /// Sends a request, and reads the head of the reply.
    private func exchange<Body, Reply>(
        _ route: Route<Body, Reply>, _ ids: [String], _ query: Query, _ body: Body
    ) throws(CommandFailure) -> AdminReply {
        do throws(GatewayError) { try route.body.check(body) } catch {
            throw CommandFailure("\(error)", status: ExitStatus.usage)
        }
        let connection: OwnedDescriptor
        do throws(SystemError) {
            connection = try UnixSocket.connect(to: socket, isBlocking: true)
        } catch {
            let isDenied = SystemError.isDenied(error.errno)
            throw CommandFailure(
                "\(error)", status: isDenied ? ExitStatus.notPermitted : ExitStatus.unreachable,
                fix: isDenied
                    ? "run as root or as the gateway's user"
                    : "start the gateway with 'culvert gateway run' or 'systemctl start culvert-gateway'")
        }
        let (method, json) = (route.description.methodName, route.body.encode(body))
        let content = json?.bytes ?? []
        var head = "\(method) \(route.description.target(ids, query: query)) HTTP/1.1\r\n"
        head += "Host: localhost\r\nConnection: close\r\n"
        if json != nil { head += "Content-Type: application/json\r\n" }
        if json != nil || method != "GET" { head += "Content-Length: \(content.count)\r\n" }
        guard SystemCall.writeAll(connection.number, Array((head + "\r\n").utf8) + content) else {
            throw CommandFailure("the gateway does not answer: \(SystemError.words(errno))")
        }
        var reply = try AdminReply(reading: SharedDescriptor(connection))
        guard (200..<300).contains(reply.status) else {
            throw Self.failure(reply.status, try reply.bytes())
        }
        return reply
    }
}

extension JSON {
    /// The text for a table: texts without quotes, lists with commas, and a dash for null.
    var cell: String {
        switch self {
        case .null: "-"
        case .bool(let value): value ? "yes" : "no"
        case .integer(let value): "\(value)"
        case .number(let value): value
        case .string(let value):
            value.isEmpty ? "-" : String(value.unicodeScalars.filter { !$0.isControl }.map(Character.init))
        case .array(let values): values.isEmpty ? "-" : values.map(\.cell).joined(separator: ",")
        case .object: "…"
        }
    }

    /// The value with the members of each object in alphabetical order, as commands print it.
    var sorted: JSON {
        switch self {
        case .array(let values): .array(values.map(\.sorted))
        case .object(let members):
            .object(members.sorted { $0.name < $1.name }.map { Member(name: $0.name, value: $0.value.sorted) })
        default: self
        }
    }
}
