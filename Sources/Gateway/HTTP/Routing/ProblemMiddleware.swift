// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import Provisioning

/// The outermost middleware: refuses inexact paths, turns each error into a problem document, and removes the body of a response to
/// HEAD.
struct ProblemMiddleware: RouterMiddleware {
    let service: GatewayService
    let report: RequestReport

    // The package enables NonisolatedNonsendingByDefault, and Hummingbird does not.
    @concurrent
    func handle(
        _ request: Request, context: GatewayContext,
        next: @concurrent (Request, GatewayContext) async throws -> Response
    ) async throws -> Response {
        let response: Response
        do {
            guard Self.isExact(request.uri.path) else {
                context.coreContext.endpointPath.value = GatewayContext.noRoute
                throw RequestRefusal(.noSuchPath)
            }
            response = try await next(request, context)
        } catch {
            let refusal = refusal(for: error, request, context)
            let name = context.routePath.map { "\(request.method) \($0)" } ?? "a request"
            report.refused(
                refusal.problem.code?.rawValue ?? "\(refusal.problem.status)", name, context.origin)
            response = APIReply(refusal).response
        }
        // NIO decides by the status alone whether a response has a body.
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func refusal(for error: any Error, _ request: Request, _ context: GatewayContext) -> RequestRefusal {
        switch error {
        case let refusal as RequestRefusal: return refusal
        case let error as GatewayError:
            if case .unavailable(let reason) = error {
                service.logFailure("\(request.method) \(context.routePath ?? "none"): \(reason)")
            }
            return RequestRefusal(error)
        case let error as HTTPError where error.status == .notFound: return RequestRefusal(.noSuchPath)
        default:
            service.logFailure("\(request.method) \(context.routePath ?? "none"): \(error)")
            return RequestRefusal(.internalFailure)
        }
    }

    /// Whether a path has one spelling only. The router finds the same route for paths with empty components, and compares text
    /// by Unicode's equivalence.
    private static func isExact(_ path: String) -> Bool {
        let bytes = path.utf8
        guard bytes.first == UInt8(ascii: "/"), bytes.allSatisfy({ $0 < 0x80 }) else { return false }
        return !bytes.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .contains(where: \.isEmpty)
    }
}

extension GatewayContext {
    /// The path of the route as its template has it; `nil` if the request has none.
    var routePath: String? { endpointPath.flatMap { $0 == Self.noRoute ? nil : $0 } }

    /// Hummingbird's name for a request without a route.
    static let noRoute = "NotFound"
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
