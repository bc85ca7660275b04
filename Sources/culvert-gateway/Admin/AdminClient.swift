// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Provisioning
import TunnelSystem

/// Asks the gateway through its Unix socket: one request for each connection.
struct AdminClient {
    var socket: String

    /// A part of a path or query, as it may stand there.
    static func escaped(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += "%" + (digits.count < 2 ? "0" : "") + digits
            }
        }
        return result
    }

    /// - Returns: the body as JSON; null for none.
    @discardableResult
    func ask(_ method: String, _ path: String, _ body: JSON? = nil) throws(CommandFailure) -> JSON {
        let (status, bytes) = try exchange(method, path, body)
        guard (200..<300).contains(status) else { throw Self.failure(status, bytes) }
        if bytes.isEmpty { return .null }
        guard let json = try? JSON.read(bytes) else {
            throw CommandFailure("the gateway's answer is no JSON")
        }
        return json
    }

    /// - Returns: the body as it is.
    func bytes(_ method: String, _ path: String, _ body: JSON? = nil) throws(CommandFailure) -> [UInt8] {
        let (status, bytes) = try exchange(method, path, body)
        guard (200..<300).contains(status) else { throw Self.failure(status, bytes) }
        return bytes
    }

    /// All pages of a list.
    func all(_ path: String) throws(CommandFailure) -> [JSON] {
        var items: [JSON] = []
        var after: String?
        repeat {
            let separator = path.contains("?") ? "&" : "?"
            let page = try ask(
                "GET", "\(path)\(separator)limit=500" + (after.map { "&after=\(Self.escaped($0))" } ?? ""))
            items += page["items"]?.list ?? []
            after = page["next"]?.string
        } while after != nil
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
            problem?.detail ?? problem?.title ?? "the gateway answers with status \(status)", status: exit)
    }

    private func exchange(
        _ method: String, _ path: String, _ body: JSON?
    ) throws(CommandFailure) -> (Int, [UInt8]) {
        let connection: OwnedDescriptor
        do throws(SystemError) {
            connection = try UnixSocket.connect(to: socket, isBlocking: true)
        } catch {
            let isDenied = SystemError.isDenied(error.errno)
            throw CommandFailure(
                "\(error)", status: isDenied ? ExitStatus.notPermitted : ExitStatus.unreachable,
                fix: isDenied
                    ? "run as root or as the gateway's user"
                    : "is the gateway running? 'culvert gateway run', or 'systemctl start culvert-gateway'")
        }
        let content = body?.bytes ?? []
        var head = "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        if body != nil { head += "Content-Type: application/json\r\n" }
        if body != nil || method != "GET" { head += "Content-Length: \(content.count)\r\n" }
        guard SystemCall.writeAll(connection.number, Array((head + "\r\n").utf8) + content),
            let reply = SystemCall.readAll(connection.number, limit: 1 << 26)
        else { throw CommandFailure("the gateway does not answer: \(SystemError.words(errno))") }
        guard let end = reply.firstRange(of: Array("\r\n\r\n".utf8)),
            let line = String(validating: reply[..<end.lowerBound], as: UTF8.self)?.split(separator: "\r\n").first,
            let status = line.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { throw CommandFailure("the gateway's answer is no HTTP") }
        return (status, Array(reply[end.upperBound...]))
    }
}

extension JSON {
    /// In a table: texts as they are, lists with commas, a dash for nothing.
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

    /// The value with the members of each object in alphabetical order, as commands print them.
    var sorted: JSON {
        switch self {
        case .array(let values): .array(values.map(\.sorted))
        case .object(let members):
            .object(members.sorted { $0.name < $1.name }.map { Member(name: $0.name, value: $0.value.sorted) })
        default: self
        }
    }
}
