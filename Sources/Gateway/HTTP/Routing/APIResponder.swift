// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Hummingbird
package import HummingbirdCore
package import Logging
package import Metrics
package import Provisioning
import Synchronization
import TunnelSystem

/// Answers the requests of one listener with Hummingbird's router.
///
/// The log contains only these parts of a request: the method, the template of the route's path, and the origin.
package final class APIResponder: HTTPAnswering {
    private let router: RouterResponder<GatewayContext>
    private let service: GatewayService
    private let report: RequestReport
    private let logger: Logger

    /// - Parameters:
    ///   - name: The name of the listener in metrics and the log.
    ///   - socketUsers: The users whose processes may use the Unix socket; `nil` for other listeners.
    package init(
        name: String, routes: RouteList, service: GatewayService, socketUsers: Set<UInt32>? = nil,
        metrics: any MetricsFactory, logger: Logger
    ) {
        report = RequestReport(name: name, metrics: metrics, logger: logger)
        self.service = service
        self.logger = logger
        let authorization = Authorization(service: service, socketUsers: socketUsers)
        let router = Router(context: GatewayContext.self)
        var methods: [(path: String, methods: [HTTPRequest.Method])] = []
        for route in routes.routes {
            let (path, method) = (route.description.path, route.description.method)
            let responder = RouteResponder(route: route, authorization: authorization)
            router.on(RouterPath(path), method: method, responder: responder)
            if let index = methods.firstIndex(where: { $0.path == path }) {
                methods[index].methods.append(method)
            } else {
                methods.append((path, [method]))
            }
        }
        // Add an answer for each method that the path does not support, because the router has none.
        for (path, present) in methods {
            for method in Self.methods where !present.contains(method) {
                let responder = OtherMethodResponder(allowed: present.map(\.rawValue))
                router.on(RouterPath(path), method: method, responder: responder)
            }
        }
        self.router = router.buildResponder()
    }

    private static let methods: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete, .options, .trace]

    // MARK: - HTTPAnswering

    package func answer(_ request: Request, from source: RequestSource, limits: HTTPLimits) async -> Response {
        let began = ContinuousClock.now
        var request = request
        if !Self.methods.contains(request.method) {
            // The router has no route for this method. No route supports TRACE, so a TRACE request makes the router
            // reply with the methods of the path.
            var head = request.head
            head.method = .trace
            request = Request(head: head, body: request.body)
        }
        let context = GatewayContext(source: .init(logger: logger, origin: source, limits: limits))
        var response: Response
        do {
            guard Self.isExact(request.uri.path) else { throw RequestRefusal(.noSuchPath) }
            response = try await router.respond(to: request, context: context)
            // If no route has this path, the router returns a response instead of an error.
            guard context.routePath != nil else { throw RequestRefusal(.noSuchPath) }
        } catch {
            let refusal = refusal(for: error, request, context)
            let name = context.routePath.map { "\(request.method) \($0)" } ?? "a request"
            report.refused(refusal.problem.code?.rawValue ?? "\(refusal.problem.status)", name, source)
            response = APIReply(refusal).response
        }
        // Remove the body: NIO decides by the status alone whether to send one.
        if request.method == .head { response = response.createHeadResponse() }
        report.answered(response.status.code, context.routePath ?? "none", in: ContinuousClock.now - began)
        return response
    }

    /// Whether a path has the only accepted spelling. The router would also find a route for other spellings: it
    /// ignores empty components, and compares text by Unicode's equivalence.
    private static func isExact(_ path: String) -> Bool {
        let bytes = path.utf8
        guard bytes.first == UInt8(ascii: "/"), bytes.allSatisfy({ $0 < 0x80 }) else { return false }
        return !bytes.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .contains(where: \.isEmpty)
    }

    private func refusal(for error: any Error, _ request: Request, _ context: GatewayContext) -> RequestRefusal {
        switch error {
        case let refusal as RequestRefusal: return refusal
        case let error as GatewayError:
            if case .unavailable(let reason) = error {
                service.logFailure("\(request.method) \(context.routePath ?? "none"): \(reason)")
            }
            return RequestRefusal(error)
        default:
            service.logFailure("\(request.method) \(context.routePath ?? "none"): \(error)")
            return RequestRefusal(.internalFailure)
        }
    }

    package func refused(by listener: String, _ source: RequestSource, _ code: ProblemDetails.Code) {
        report.refused(code.rawValue, "a connection", source)
    }
}

/// Refuses a method that a path does not support.
private struct OtherMethodResponder: HTTPResponder {
    let allowed: [String]

    @concurrent
    func respond(to request: Request, context: GatewayContext) async throws -> Response {
        context.coreContext.endpointPath.value = GatewayContext.noRoute
        throw RequestRefusal(.methodNotAllowed, allowed: allowed)
    }
}
