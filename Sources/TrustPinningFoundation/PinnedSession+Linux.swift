// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !canImport(Security)
    public import Foundation
    import NIOHTTP1
    public import TrustPinning
    // So that this module has the same names as on Apple's platforms.
    @_exported public import TrustPinningNIO

    #if canImport(FoundationNetworking)
        public import FoundationNetworking
    #endif

    /// The same requests as `URLSession` takes, for code that is shared with Apple's platforms.
    extension PinnedSession {
        /// Gets what is at `url`: the answer is an `HTTPURLResponse`.
        /// - Throws: an error that says what failed; answers of any status are none.
        public func data(from url: URL) async throws(PinnedSessionError) -> (Data, URLResponse) {
            try await data(for: URLRequest(url: url))
        }

        /// Sends a request and gives its answer as a whole: an `HTTPURLResponse`.
        ///
        /// Time-outs are the session's. Fields that say how the message is framed are left to it too, and what a `URLSession`
        /// adds of its own (cookies, credentials, caching) is not there.
        /// - Throws: an error that says what failed; a body that is a stream is none that can be sent.
        public func data(for request: URLRequest) async throws(PinnedSessionError) -> (Data, URLResponse) {
            guard let url = request.url else { throw .invalidRequest("it has no URL") }
            guard request.httpBodyStream == nil else {
                throw .invalidRequest("a body of an InputStream is not supported; use PinnedRequest with .stream")
            }
            var pinned = PinnedRequest(url: url, method: HTTPMethod(rawValue: request.httpMethod ?? "GET"))
            for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key }) {
                // Foundation adds it to requests with a body; the session computes it.
                guard name.lowercased() != "content-length" else { continue }
                pinned.headers.add(name: name, value: value)
            }
            if let body = request.httpBody { pinned.body = .bytes(body) }
            let (data, response) = try await self.data(for: pinned)
            var fields: [String: String] = [:]
            for (name, value) in response.headers {
                fields[name] = fields[name].map { "\($0), \(value)" } ?? value
            }
            let head = HTTPURLResponse(
                url: response.url, statusCode: response.statusCode, httpVersion: "HTTP/1.1", headerFields: fields)
            guard let head else { throw .invalidResponse("its head cannot be represented") }
            return (data, head)
        }
    }
#endif
