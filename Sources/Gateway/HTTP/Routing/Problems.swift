// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Provisioning

/// The refusals of the listeners. ``GatewayError`` has the refusals of the service.
extension ProblemDetails.Code {
    /// The request is not valid HTTP.
    package static let malformedRequest = Self(rawValue: "malformedRequest")
    /// The head exceeds the limit of bytes or fields.
    package static let headersTooLarge = Self(rawValue: "headersTooLarge")
    /// The request's `If-Match` does not contain the version of the resource.
    package static let preconditionFailed = Self(rawValue: "preconditionFailed")
    /// The body exceeds the limit of bytes.
    package static let bodyTooLarge = Self(rawValue: "bodyTooLarge")
    /// The media type of the body is not JSON.
    package static let mediaTypeUnsupported = Self(rawValue: "mediaTypeUnsupported")
    /// The request took too long to arrive.
    package static let tooSlow = Self(rawValue: "tooSlow")
    /// The answer took too long.
    package static let timedOut = Self(rawValue: "timedOut")
    /// There are too many connections.
    package static let tooManyConnections = Self(rawValue: "tooManyConnections")
    /// The path does not exist.
    package static let noSuchPath = Self(rawValue: "noSuchPath")
    /// The path does not support the method.
    package static let methodNotAllowed = Self(rawValue: "methodNotAllowed")
    /// The gateway failed.
    package static let internalFailure = Self(rawValue: "internalFailure")
    /// The gateway is not ready, or is stopping.
    package static let unavailable = Self(rawValue: "unavailable")
}

extension ProblemDetails {
    package static let mediaType = "application/problem+json"

    /// Makes the problem for one of the listeners' codes.
    package init(_ code: Code, detail: String? = nil) {
        let (status, title) = Self.kinds[code.rawValue] ?? (500, "The gateway failed")
        self.init(title: title, status: status, detail: detail, code: code)
    }

    private static let kinds: [String: (Int, String)] = [
        Code.malformedRequest.rawValue: (400, "The request is not valid HTTP"),
        Code.requestInvalid.rawValue: (400, "The request is not valid"),
        Code.unauthorized.rawValue: (401, "No valid credential"),
        Code.forbidden.rawValue: (403, "The credential does not permit this"),
        Code.notFound.rawValue: (404, "The resource does not exist"),
        Code.noSuchPath.rawValue: (404, "The path does not exist"),
        Code.methodNotAllowed.rawValue: (405, "The path does not support this method"),
        Code.tooSlow.rawValue: (408, "The request took too long"),
        Code.bodyTooLarge.rawValue: (413, "The body is too large"),
        Code.mediaTypeUnsupported.rawValue: (415, "The body is not application/json"),
        Code.tooManyRequests.rawValue: (429, "Too many failures from here"),
        Code.headersTooLarge.rawValue: (431, "The request's head is too large"),
        Code.internalFailure.rawValue: (500, "The gateway failed"),
        Code.timedOut.rawValue: (503, "The answer took too long"),
        Code.tooManyConnections.rawValue: (503, "Too many connections"),
        Code.unavailable.rawValue: (503, "The gateway is not ready"),
    ]
}
