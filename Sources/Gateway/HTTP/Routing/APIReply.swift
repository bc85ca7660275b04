// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import HTTPTypes
import HummingbirdCore
import NIOCore
import Provisioning
import TunnelSystem

/// The body of a reply that is sent while it is made.
package struct ReplyStream: Sendable {
    // The package enables NonisolatedNonsendingByDefault, but Hummingbird does not.
    package typealias Send = @concurrent ([UInt8]) async throws -> Void

    let write: @Sendable @concurrent (_ send: Send) async throws -> Void

    /// - Parameter write: Sends all parts, each after the previous one was accepted by the connection. If it throws, the
    ///   connection ends without the end of the body, so that the client does not mistake the parts for all of it.
    package init(_ write: @escaping @Sendable @concurrent (_ send: Send) async throws -> Void) { self.write = write }
}

/// The reply of a route in the form of HTTP.
package struct APIReply: Sendable {
    package var status: Int
    package var mediaType: String
    package var body: [UInt8]
    /// The body, if it is sent while it is made; ``body`` is then empty.
    package var stream: ReplyStream?
    package var headers: [(HTTPField.Name, String)] = []

    init(_ status: Int, mediaType: String, body: [UInt8]) {
        self.status = status
        self.mediaType = mediaType
        self.body = body
    }

    init(_ status: Int, mediaType: String, stream: ReplyStream) {
        self.init(status, mediaType: mediaType, body: [])
        self.stream = stream
    }

    init(_ status: Int = 200, _ json: JSON) {
        self.init(status, mediaType: "application/json", body: json.bytes)
    }

    /// The reply without a body (204).
    static let empty = APIReply(204, mediaType: "", body: [])
}

extension APIReply {
    /// The problem document of a refusal.
    init(_ refusal: RequestRefusal) {
        self.init(refusal.problem.status, mediaType: ProblemDetails.mediaType, body: refusal.problem.body)
        if let seconds = refusal.retryAfter { headers.append((.retryAfter, "\(seconds)")) }
        if refusal.problem.status == 401 { headers.append((.wwwAuthenticate, "Bearer")) }
        if !refusal.allowed.isEmpty { headers.append((.allow, refusal.allowed.sorted().joined(separator: ", "))) }
    }

    var response: Response {
        var fields: HTTPFields = [
            .cacheControl: "no-store", .xContentTypeOptions: "nosniff", .date: HTTPDate.text(.now),
        ]
        if !mediaType.isEmpty { fields[.contentType] = mediaType }
        for (name, value) in headers { fields[name] = value }
        let content =
            if let stream {
                ResponseBody { writer in
                    try await stream.write { try await writer.write(ByteBuffer(bytes: $0)) }
                    try await writer.finish(nil)
                }
            } else {
                body.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: body))
            }
        return Response(status: HTTPResponse.Status(code: status), headers: fields, body: content)
    }
}
