// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// On Apple's platforms, TrustPinningFoundation's own session handles requests of Foundation.
#if !canImport(Security)
    import Foundation
    import NIOHTTP1
    import Testing
    import TrustPinning
    import TrustPinningFoundation
    import TrustPinningNIO
    import TrustPinningNIOTesting

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    @Suite("Foundation requests")
    struct URLRequestTests {
        @Test("Requests and responses are equal to those of URLSession")
        func exchange() async throws {
            let server = try await LoopbackServer.start { request in
                [.send(LoopbackServer.answer("201 Created", request.text, ["X-Kind: a", "X-Kind: b"]))]
            }
            let session = try server.session()
            var request = URLRequest(url: try server.url("/path?q=1"))
            request.httpMethod = "PUT"
            request.httpBody = Data("body".utf8)
            request.setValue("text/plain", forHTTPHeaderField: "Content-Type")
            let (data, response) = try await session.data(for: request)
            #expect(String(decoding: data, as: UTF8.self) == "body")
            let head = try #require(response as? HTTPURLResponse)
            #expect(head.statusCode == 201)
            #expect(head.value(forHTTPHeaderField: "X-Kind") == "a, b")
            let received = try #require(server.figures.requests.first?.head)
            #expect(received.uri == "/path?q=1")
            #expect(received.headers["content-type"] == ["text/plain"])
            #expect(received.headers["content-length"] == ["4"])
        }

        @Test("Data from a URL has a Foundation response if TrustPinningFoundation is imported")
        func url() async throws {
            let server = try await LoopbackServer.start()
            let (data, response) = try await server.session().data(from: server.url())
            #expect(String(decoding: data, as: UTF8.self) == "hello")
            #expect((response as? HTTPURLResponse)?.statusCode == 200)
        }

        @Test("Requests with an unsupported body are refused")
        func stream() async throws {
            let server = try await LoopbackServer.start()
            let session = try server.session()
            var request = URLRequest(url: try server.url())
            request.httpMethod = "POST"
            request.httpBodyStream = InputStream(data: Data("body".utf8))
            let refused = request
            let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: refused) }
            guard case .invalidRequest = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(server.figures.accepted == 0)
        }
    }
#endif
