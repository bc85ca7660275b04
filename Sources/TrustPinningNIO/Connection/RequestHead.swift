// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

typealias Endpoint = HTTPSEndpoint

/// Builds the head of a request, and refuses input that a server could read as more than one request.
enum RequestHead {
    /// The fields for framing and connections, which only the session sets.
    private static let reserved: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "expect", "te",
        "trailer", "upgrade",
    ]

    static func make(_ request: PinnedRequest, to endpoint: Endpoint) throws(PinnedSessionError) -> HTTPRequestHead {
        let method = request.method.rawValue
        guard isToken(method), method != "CONNECT" else {
            throw .invalidRequest("'\(printable(method))' is not a supported method")
        }
        if method == "TRACE" {
            // Refuse a body: it would be sent without a length, and a server would read it as another request (RFC
            // 9110, section 9.3.8).
            guard case .none = request.body.source else { throw .invalidRequest("TRACE must not have a body") }
        }
        var headers: HTTPHeaders = ["Host": endpoint.authority]
        for (name, value) in request.headers {
            guard isToken(name) else { throw .invalidRequest("'\(printable(name))' is not a valid header field name") }
            guard !reserved.contains(name.lowercased()) else {
                throw .invalidRequest("the field '\(name)' is set by the session")
            }
            guard isFieldValue(value) else {
                throw .invalidRequest("the value of '\(name)' contains a line break or another control character")
            }
            headers.add(name: name, value: value)
        }
        if headers["accept"].isEmpty { headers.add(name: "Accept", value: "*/*") }
        if headers["accept-encoding"].isEmpty { headers.add(name: "Accept-Encoding", value: "identity") }
        switch request.body.source {
        case .none:
            // Servers treat a missing length as an error if the method usually has a body (RFC 9110, section 8.6).
            if [.POST, .PUT, .PATCH].contains(request.method) { headers.add(name: "Content-Length", value: "0") }
        case .bytes(let bytes): headers.add(name: "Content-Length", value: String(bytes.readableBytes))
        case .stream(let length?, _):
            guard length >= 0 else { throw .invalidRequest("the body's length must not be negative") }
            headers.add(name: "Content-Length", value: String(length))
        case .stream(nil, _): headers.add(name: "Transfer-Encoding", value: "chunked")
        }
        if waitsForContinue(request) { headers.add(name: "Expect", value: "100-continue") }
        return HTTPRequestHead(
            version: .http1_1, method: request.method, uri: try target(request.url), headers: headers)
    }

    static func waitsForContinue(_ request: PinnedRequest) -> Bool {
        guard request.expectsContinue else { return false }
        if case .none = request.body.source { return false }
        return true
    }

    /// Whether the method may be sent twice (RFC 9110, section 9.2.2).
    static func isIdempotent(_ method: HTTPMethod) -> Bool {
        switch method {
        case .GET, .HEAD, .OPTIONS, .TRACE, .PUT, .DELETE: true
        default: false
        }
    }

    private static func target(_ url: URL) throws(PinnedSessionError) -> String {
        let path = url.path(percentEncoded: true)
        var target = path.hasPrefix("/") ? path : "/" + path
        if let query = url.query(percentEncoded: true) { target += "?" + query }
        guard target.utf8.count <= 16_384 else { throw .invalidRequest("the URL must not exceed 16 KiB") }
        guard target.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw .invalidRequest("the URL contains characters that must be percent-encoded")
        }
        return target
    }

    static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    private static let tokenMarks = Set("!#$%&'*+-.^_`|~".utf8)

    /// Whether the text is a token (RFC 9110, section 5.6.2).
    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { isLetterOrDigit($0) || tokenMarks.contains($0) }
    }

    /// Whether the text is a field value (RFC 9110, section 5.5), including bytes outside of ASCII.
    private static func isFieldValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7f) }
    }

    private static func printable(_ text: String) -> String {
        String(text.unicodeScalars.prefix(40).map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" })
    }
}
