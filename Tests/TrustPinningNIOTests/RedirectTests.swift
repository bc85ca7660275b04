// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOCore
import NIOHTTP1
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

@Suite("Redirects")
struct RedirectTests {
    private func server() async throws -> LoopbackServer {
        try await LoopbackServer.start { request in
            let parts = request.head.uri.split(separator: "?", maxSplits: 1)
            guard let path = parts.first, path.hasPrefix("/to/"), parts.count == 2,
                let location = RedirectTests.text(ofHex: parts[1])
            else { return [.send(LoopbackServer.ok("\(request.head.method) \(request.text)"))] }
            return [.send(LoopbackServer.answer("\(path.dropFirst(4)) Moved", "go", ["Location: \(location)"]))]
        }
    }

    private func url(
        _ server: LoopbackServer, _ status: Int, _ location: String, host: String = "www.example.com"
    ) throws -> URL {
        let hex = location.utf8.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
        return try server.url("/to/\(status)?\(hex)", host: host)
    }

    private static func text(ofHex hex: Substring) -> String? {
        let digits = hex.compactMap(\.hexDigitValue)
        guard digits.count.isMultiple(of: 2) else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("Absolute and relative redirects within a host are followed", arguments: [301, 302, 303, 307, 308])
    func same(status: Int) async throws {
        let server = try await server()
        let session = try server.session()
        let (data, response) = try await session.data(from: url(server, status, "/end"))
        #expect(String(data) == "GET ")
        #expect(response.url.path() == "/end")
        #expect(server.figures.accepted == 1)
    }

    @Test(
        "Redirects change the method and drop the body as RFC 9110 requires",
        arguments: [
            (301, HTTPMethod.POST, "GET "), (302, .POST, "GET "), (303, .POST, "GET "), (307, .POST, "POST data"),
            (308, .POST, "POST data"), (301, .PUT, "PUT data"), (303, .PUT, "GET "), (307, .PUT, "PUT data"),
        ])
    func method(status: Int, method: HTTPMethod, expected: String) async throws {
        let server = try await server()
        let session = try server.session()
        let request = PinnedRequest(
            url: try url(server, status, "/end"), method: method, headers: ["Content-Type": "text/plain"],
            body: .bytes("data".utf8))
        #expect(String(try await session.data(for: request).0) == expected)
        let last = try #require(server.figures.requests.last)
        #expect(last.head.headers["content-type"].isEmpty == expected.hasPrefix("GET"))
    }

    @Test("Redirects to a host with another policy are refused, and nothing is sent to it")
    func refused() async throws {
        let server = try await server()
        let session = try server.session()
        let target = try url(server, 302, "https://other.example.org:\(server.port)/end?token=secret")
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: target) }
        guard case .redirectRefused(let place, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(place == "https://other.example.org:\(server.port)/end")
        #expect(server.figures.requests.count == 1)
    }

    @Test(
        "The error of a refused redirect contains no user, password or query",
        arguments: [
            "https://user:hidden@other.example.org/end", "https://hidden@other.example.org/@end?hidden#hidden",
            "https://user:hidden@www.example.com/", "http://user:hidden@www.example.com/",
            "//user:hidden@other.example.org/", "https://user:hid@hidden@other.example.org/",
            "https://user:hidden?end@host/", "https://user:hidden#end@[host/", "https://[host/?end@hidden",
            "https://user:hidden@[not an address/", "mailto:hidden@example.com",
        ])
    func userInformation(location: String) async throws {
        let server = try await server()
        let session = try server.session()
        let target = try url(server, 302, location)
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: target) }
        guard case .redirectRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.description.contains("hid") == false)
        #expect(server.figures.requests.count == 1)
    }

    @Test("The same-policy rule refuses redirects between hosts without pins")
    func unlisted() async throws {
        let authority = try Shared.authority.get()
        let server = try await server()
        let trust = TrustEvaluator(
            policies: try PolicySet([], unlisted: .systemTrust),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        var request = try PinnedRequest(
            url: url(
                server, 307, "https://v2.api.example.com:\(server.port)/end", host: "v1.api.example.com"),
            method: .POST, headers: ["X-Api-Key": "secret"], body: .bytes("data".utf8))
        let crossing = request
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: crossing) }
        guard case .redirectRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(server.figures.requests.count == 1)
        // A redirect within one host is followed.
        request.url = try url(server, 307, "/end", host: "v1.api.example.com")
        #expect(String(try await session.data(for: request).0) == "POST data")
    }

    @Test("Permitted redirects to another policy omit fields that identify the user")
    func allowed() async throws {
        let server = try await server()
        let session = try server.session { $0.redirects = .anyPolicy(limit: 3) }
        var request = try PinnedRequest(url: url(server, 307, "https://other.example.org:\(server.port)/end"))
        request.headers = ["Authorization": "Bearer x", "Cookie": "a=b", "X-Own": "kept"]
        _ = try await session.data(for: request)
        let last = try #require(server.figures.requests.last)
        #expect(last.head.headers["host"] == ["other.example.org:\(server.port)"])
        #expect(last.head.headers["authorization"].isEmpty)
        #expect(last.head.headers["cookie"].isEmpty)
        #expect(last.head.headers["x-own"] == ["kept"])
    }

    @Test(
        "Redirects away from https are always refused",
        arguments: [
            "http://www.example.com/", "http://www.example.com:80/end", "file:///etc/passwd", "javascript:alert(1)",
        ])
    func downgrade(location: String) async throws {
        let server = try await server()
        let session = try server.session { $0.redirects = .anyPolicy(limit: 3) }
        let target = try url(server, 301, location)
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: target) }
        guard case .redirectRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(server.figures.requests.count == 1)
    }

    @Test("A redirect loop ends at the limit")
    func circle() async throws {
        let server = try await LoopbackServer.start { _ in
            [.send(LoopbackServer.answer("302 Found", "", ["Location: /again"]))]
        }
        let session = try server.session { $0.redirects = .samePolicy(limit: 4) }
        let url = try server.url()
        await #expect(throws: PinnedSessionError.tooManyRedirects(limit: 4)) { try await session.data(from: url) }
        #expect(server.figures.requests.count == 5)
    }

    @Test("Redirects can be returned as responses")
    func answers() async throws {
        let server = try await server()
        let session = try server.session { $0.redirects = .answer }
        let (data, response) = try await session.data(from: url(server, 302, "/end"))
        #expect(response.statusCode == 302)
        #expect(String(data) == "go")
    }

    @Test("Redirects that require a streamed body again are refused")
    func stream() async throws {
        let server = try await server()
        let session = try server.session()
        let request = PinnedRequest(
            url: try url(server, 307, "/end"), method: .POST, body: .stream { try await $0.write("data".utf8) })
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
        guard case .redirectRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test(
        "3xx responses without a location, or that are not redirects, are returned",
        arguments: ["300 Choices", "304 Not Modified", "302 Found"])
    func noLocation(status: String) async throws {
        let server = try await LoopbackServer.start { _ in [.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")] }
        let session = try server.session()
        let response = try await session.data(from: server.url()).1
        #expect(status.hasPrefix("\(response.statusCode)"))
    }
}
