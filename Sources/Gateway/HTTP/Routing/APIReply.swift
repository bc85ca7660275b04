// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import HTTPTypes
import HummingbirdCore
import NIOCore
import Provisioning
import TunnelSystem

/// The reply of a route in the form of HTTP.
package struct APIReply: Sendable {
    package var status: Int
    package var mediaType: String
    package var body: [UInt8]
    package var headers: [(HTTPField.Name, String)] = []

    init(_ status: Int, mediaType: String, body: [UInt8]) {
        self.status = status
        self.mediaType = mediaType
        self.body = body
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
        let content = body.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: body))
        return Response(status: HTTPResponse.Status(code: status), headers: fields, body: content)
    }
}
