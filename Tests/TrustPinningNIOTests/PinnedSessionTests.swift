// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import Testing
import TrustPinning
import TrustPinningNIOTesting

@testable import TrustPinningNIO

@Suite("HTTPS requests")
struct PinnedSessionTests {
    @Test("A request returns the body and the head")
    func get() async throws {
        let server = try await LoopbackServer.start { _ in [.send(LoopbackServer.ok("hello", ["X-Kind: test"]))] }
        let session = try server.session()
        let (data, response) = try await session.data(from: server.url("/a%20b?q=1&r=%2F#part"))
        #expect(String(data) == "hello")
        #expect(response.statusCode == 200)
        #expect(response.headers["x-kind"] == ["test"])
        let request = try #require(server.figures.requests.first)
        #expect(request.head.uri == "/a%20b?q=1&r=%2F")
        #expect(request.head.method == .GET)
        #expect(request.head.headers["host"] == ["www.example.com:\(server.port)"])
        #expect(request.head.headers["accept-encoding"] == ["identity"])
        #expect(request.head.headers["content-length"].isEmpty)
        #expect(request.head.headers["transfer-encoding"].isEmpty)
    }

    @Test("A request contains its body and its length")
    func post() async throws {
        let server = try await LoopbackServer.start { request in
            [.send(LoopbackServer.ok("\(request.body.readableBytes)"))]
        }
        let session = try server.session()
        let request = try PinnedRequest(
            url: server.url(), method: .POST, headers: ["Content-Type": "text/plain"],
            body: .bytes([UInt8](repeating: 7, count: 300_000)))
        #expect(String(try await session.data(for: request).0) == "300000")
        let received = try #require(server.figures.requests.first)
        #expect(received.head.headers["content-length"] == ["300000"])
        #expect(received.body.readableBytesView.allSatisfy { $0 == 7 })
    }

    @Test("Requests that usually have a body send a length of zero", arguments: [HTTPMethod.POST, .PUT, .PATCH])
    func emptyBody(method: HTTPMethod) async throws {
        let server = try await LoopbackServer.start()
        _ = try await server.session().data(for: PinnedRequest(url: server.url(), method: method))
        #expect(server.figures.requests.first?.head.headers["content-length"] == ["0"])
    }

    @Test("Responses in each form of HTTP/1.1 are read", arguments: AnswerForm.all)
    func forms(form: AnswerForm) async throws {
        let server = try await LoopbackServer.start { _ in form.steps }
        let session = try server.session()
        let request = try PinnedRequest(url: server.url(), method: form.method)
        let (data, response) = try await session.data(for: request)
        #expect(String(data) == form.body)
        #expect(response.statusCode == form.status)
    }

    @Test("Requests fail if the response is malformed", arguments: BadAnswer.all)
    func malformed(answer: BadAnswer) async throws {
        let server = try await LoopbackServer.start { _ in answer.steps }
        let session = try server.session()
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        #expect(answer.isExpected(error), "\(String(describing: error))")
        // Its connection is not reused.
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("Requests that a server could read as more than one are refused", arguments: Injection.all)
    func injection(injection: Injection) async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        var request = try PinnedRequest(url: server.url())
        injection.apply(&request)
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
        guard case .invalidRequest = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(server.figures.accepted == 0)
    }

    @Test(
        "URLs without https or a valid host are refused",
        arguments: [
            "http://www.example.com/", "ftp://www.example.com/", "https://user:secret@www.example.com/",
            "https:///path",
            "https://www.example.com:0/", "/relative", "https://under%20score/",
        ])
    func urls(text: String) async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        guard let url = URL(string: text) else { return }
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .invalidRequest(let reason) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(!reason.contains("secret"))
    }

    @Test(
        "Requests fail if the response exceeds the limit, announced or not",
        arguments: [
            LoopbackServer.ok(String(repeating: "x", count: 2000)),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n\(String(repeating: "x", count: 2000))\r\n0\r\n\r\n",
        ])
    func tooLarge(answer: String) async throws {
        let server = try await LoopbackServer.start { _ in [.send(answer)] }
        let session = try server.session { $0.dataLimit = 1999 }
        let url = try server.url()
        await #expect(throws: PinnedSessionError.responseTooLarge(limit: 1999)) { try await session.data(from: url) }
        let wide = try server.session { $0.dataLimit = 2000 }
        #expect(try await wide.data(from: url).0.count == 2000)
    }

    @Test("Requests to an unknown name or a closed port throw `unreachable`")
    func unreachable() async throws {
        let server = try await LoopbackServer.start()
        // Nothing listens on port 1 of the loopback address, and the system reports that immediately.
        let session = try server.session {
            try $0.setDetour(from: "www.example.com:\(server.port)", to: "127.0.0.1:1")
        }
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .unreachable = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }
}

/// A valid response.
struct AnswerForm: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var steps: [LoopbackServer.Step]
    var body: String
    var status = 200
    var method = HTTPMethod.GET

    static let all: [AnswerForm] = [
        AnswerForm(
            testDescription: "chunked",
            steps: [
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
                .send("6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n"),
            ], body: "hello world"),
        AnswerForm(
            testDescription: "up to the end of the connection",
            steps: [.send("HTTP/1.1 200 OK\r\n\r\nhello"), .close], body: "hello"),
        AnswerForm(
            testDescription: "HTTP/1.0", steps: [.send("HTTP/1.0 200 OK\r\n\r\nhello"), .close], body: "hello"),
        AnswerForm(
            testDescription: "in pieces",
            steps: [
                .send("HTTP/1.1 2"), .send("00 OK\r\nContent-Le"), .send("ngth: 5\r\n\r"), .send("\nhe"), .send("llo"),
            ],
            body: "hello"),
        AnswerForm(
            testDescription: "to HEAD", steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")], body: "",
            method: .HEAD),
        AnswerForm(testDescription: "204", steps: [.send("HTTP/1.1 204 No Content\r\n\r\n")], body: "", status: 204),
        AnswerForm(testDescription: "304", steps: [.send("HTTP/1.1 304 Not Modified\r\n\r\n")], body: "", status: 304),
        AnswerForm(
            testDescription: "404", steps: [.send(LoopbackServer.answer("404 Not Found", "gone"))], body: "gone",
            status: 404),
        AnswerForm(
            testDescription: "after early hints",
            steps: [.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + LoopbackServer.ok("hello"))], body: "hello"
        ),
        AnswerForm(
            testDescription: "coded, which is not undone",
            steps: [.send(LoopbackServer.ok("not gzip", ["Content-Encoding: gzip"]))], body: "not gzip"),
    ]
}

/// A malformed response.
struct BadAnswer: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var steps: [LoopbackServer.Step]
    var isExpected: @Sendable (PinnedSessionError?) -> Bool

    private static let invalid: @Sendable (PinnedSessionError?) -> Bool = {
        if case .invalidResponse = $0 { true } else { false }
    }
    private static let lost: @Sendable (PinnedSessionError?) -> Bool = {
        if case .connectionLost = $0 { true } else { false }
    }

    static let all: [BadAnswer] = [
        BadAnswer(
            testDescription: "length and transfer coding",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")],
            isExpected: invalid),
        BadAnswer(
            testDescription: "two lengths",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")],
            isExpected: invalid),
        BadAnswer(testDescription: "another protocol", steps: [.send("SSH-2.0-OpenSSH\r\n\r\n")], isExpected: invalid),
        BadAnswer(
            testDescription: "a chunk without a size",
            steps: [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n")],
            isExpected: invalid),
        BadAnswer(
            testDescription: "protocols switched",
            steps: [.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")],
            isExpected: invalid),
        BadAnswer(
            testDescription: "hints without end",
            steps: [.send(String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 40))], isExpected: invalid),
        BadAnswer(
            testDescription: "a field of a megabyte",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Large: \(String(repeating: "a", count: 1 << 20))\r\n\r\n")],
            isExpected: invalid),
        BadAnswer(
            testDescription: "cut off in its head", steps: [.send("HTTP/1.1 200 OK\r\nContent-"), .close],
            isExpected: { invalid($0) || lost($0) }),
        BadAnswer(
            testDescription: "cut off before its length",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"), .close],
            isExpected: { invalid($0) || lost($0) }),
        BadAnswer(
            testDescription: "up to the end of the connection, which is cut off under TLS",
            steps: [.send("HTTP/1.1 200 OK\r\n\r\nhello"), .abort], isExpected: lost),
        BadAnswer(testDescription: "none", steps: [.close], isExpected: lost),
    ]
}

/// A change to a request that would end a line or change its framing.
struct Injection: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var apply: @Sendable (inout PinnedRequest) -> Void

    static let all: [Injection] = [
        Injection(testDescription: "line break in a value") {
            $0.headers.add(name: "X-Note", value: "a\r\nHost: evil.example")
        },
        Injection(testDescription: "line feed in a value") { $0.headers.add(name: "X-Note", value: "a\nb") },
        Injection(testDescription: "zero byte in a value") { $0.headers.add(name: "X-Note", value: "a\u{0}b") },
        Injection(testDescription: "colon in a name") { $0.headers.add(name: "X-Note: a\r\nHost", value: "evil") },
        Injection(testDescription: "empty name") { $0.headers.add(name: "", value: "a") },
        Injection(testDescription: "space in a method") { $0.method = .RAW(value: "GET /other HTTP/1.1\r\nX:") },
        Injection(testDescription: "empty method") { $0.method = .RAW(value: "") },
        Injection(testDescription: "CONNECT") { $0.method = .CONNECT },
        Injection(testDescription: "host") { $0.headers.add(name: "host", value: "evil.example") },
        Injection(testDescription: "length") { $0.headers.add(name: "Content-Length", value: "5") },
        Injection(testDescription: "transfer coding") { $0.headers.add(name: "transfer-encoding", value: "chunked") },
        Injection(testDescription: "connection") { $0.headers.add(name: "Connection", value: "upgrade") },
        Injection(testDescription: "expectation") { $0.headers.add(name: "Expect", value: "100-continue") },
        Injection(testDescription: "negative length") { $0.body = .stream(length: -1) { _ in } },
    ]
}
