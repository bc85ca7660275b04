// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import Provisioning
import TunnelSystem

/// Identifies the caller, reads the parts of the request that its route needs, calls the handler, and limits its time.
struct RouteResponder: HTTPResponder {
    let route: ServedRoute
    let authorization: Authorization

    // The package enables NonisolatedNonsendingByDefault, but Hummingbird does not.
    @concurrent
    func respond(to request: Request, context: GatewayContext) async throws -> Response {
        // A caller without permission is refused before more of the request is read.
        let (caller, bearer) = try await authorization.caller(
            of: request, from: context.origin, route.description.access)
        let parameters = route.description.parameters.filter { $0.place == .query }
        let read = APIRequest(
            caller: caller, source: context.origin, bearer: bearer,
            ids: try route.description.ids { context.parameters[$0] },
            query: try RequestFields.query(request.uri.query, parameters),
            creationKey: try RequestFields.creationKey(request.headers),
            versions: try RequestFields.versions(request.headers), body: try await body(request, context.limits))
        // At the deadline, the client gets an error, and the handler continues.
        let outcome = await withDeadline(context.limits.work, clock: ContinuousClock()) {
            () -> Result<APIReply, GatewayError> in
            do throws(GatewayError) { return .success(try await route.answer(read)) } catch {
                return .failure(error)
            }
        }
        switch outcome {
        case .finished(let result): return try result.get().response
        case .timedOut: throw RequestRefusal(.timedOut)
        case .cancelled: throw RequestRefusal(.unavailable)
        }
    }

    private func body(_ request: Request, _ limits: HTTPLimits) async throws(RequestRefusal) -> [UInt8] {
        let length = request.headers[.contentLength].flatMap { Int($0) }
        guard route.description.body != nil else {
            // Some clients send an empty body.
            guard length ?? 0 == 0, !request.headers.contains(.transferEncoding) else {
                throw RequestRefusal(.requestInvalid, detail: "the request must not have a body")
            }
            return []
        }
        guard length ?? 0 <= limits.body else { throw RequestRefusal(.bodyTooLarge) }
        guard RequestFields.isJSON(request.headers) else { throw RequestRefusal(.mediaTypeUnsupported) }
        do {
            return Array(buffer: try await request.body.collect(upTo: limits.body))
        } catch is NIOTooManyBytesError {
            throw RequestRefusal(.bodyTooLarge)
        } catch {
            throw RequestRefusal(.malformedRequest, detail: "the body is not valid HTTP")
        }
    }
}
