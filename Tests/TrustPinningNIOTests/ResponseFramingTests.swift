// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import Testing
import TrustPinning
import TrustPinningNIOTesting

@testable import TrustPinningNIO

@Suite("Response framing")
struct ResponseFramingTests {
    private static let chunks = "5\r\nhello\r\n0\r\n\r\n"

    @Test(
        "Responses with an ambiguous end or a status below 100 are refused",
        arguments: [
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n\(chunks)",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 099 Low\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 000 None\r\nContent-Length: 5\r\n\r\nhello",
        ])
    func refused(answer: String) async throws {
        let server = try await LoopbackServer.start { _ in [.send(answer), .close] }
        let session = try server.session()
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .invalidResponse = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test(
        "Chunked responses are read, with the coding in any case",
        arguments: ["chunked", "Chunked", "CHUNKED"])
    func accepted(coding: String) async throws {
        let server = try await LoopbackServer.start { _ in
            [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: \(coding)\r\n\r\n\(Self.chunks)")]
        }
        let session = try server.session()
        for _ in 0..<2 { #expect(String(try await session.data(from: server.url()).0) == "hello") }
        #expect(server.figures.accepted == 1)
    }
}
