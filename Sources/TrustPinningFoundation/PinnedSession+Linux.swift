// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !canImport(Security)
    public import Foundation
    import NIOHTTP1
    public import TrustPinning
    // Export the types of TrustPinningNIO, so that this module has the same names as on Apple's platforms.
    @_exported public import TrustPinningNIO

    #if canImport(FoundationNetworking)
        public import FoundationNetworking
    #endif

    /// Methods with the request and response types of `URLSession`, for code that is shared with Apple's platforms.
    extension PinnedSession {
        /// Fetches the resource at `url`. The response is an `HTTPURLResponse`.
        /// - Throws: An error if there is no response. A response with any status is not an error.
        public func data(from url: URL) async throws(PinnedSessionError) -> (Data, URLResponse) {
            try await data(for: URLRequest(url: url))
        }

        /// Sends a request and returns the complete response: an `HTTPURLResponse`.
        ///
        /// The session's time-outs apply, and the session sets the fields that frame the message. It does not add
        /// cookies, credentials or caching, which a `URLSession` would.
        /// - Throws: An error if there is no response, or `.invalidRequest` for a body that is a stream.
        public func data(for request: URLRequest) async throws(PinnedSessionError) -> (Data, URLResponse) {
            guard let url = request.url else { throw .invalidRequest("the request has no URL") }
            guard request.httpBodyStream == nil else {
                throw .invalidRequest("a body from an InputStream is not supported; use PinnedRequest with .stream")
            }
            var pinned = PinnedRequest(url: url, method: HTTPMethod(rawValue: request.httpMethod ?? "GET"))
            for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key }) {
                // Skip the field that Foundation adds to requests with a body: the session computes it.
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
