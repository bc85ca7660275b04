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
/// The log contains a request's method, the path of its route as the template has it, and its origin, and nothing else of it.
package final class APIResponder: HTTPAnswering {
    private let router: RouterResponder<GatewayContext>
    private let report: RequestReport
    private let logger: Logger

    /// - Parameters:
    ///   - name: the name of the listener in metrics and the log.
    ///   - socketUsers: for the Unix socket: the users whose processes may use it.
    package init(
        name: String, routes: RouteList, service: GatewayService, socketUsers: Set<UInt32>? = nil,
        metrics: any MetricsFactory, logger: Logger
    ) {
        report = RequestReport(name: name, metrics: metrics, logger: logger)
        self.logger = logger
        let router = Router(context: GatewayContext.self)
        router.add(middleware: ProblemMiddleware(service: service, report: report))
        var methods: [(path: String, methods: [HTTPRequest.Method])] = []
        for route in routes.routes {
            let (path, method) = (route.description.path, route.description.method)
            router.group()
                .add(
                    middleware: AuthorizationMiddleware(
                        service: service, socketUsers: socketUsers, access: route.description.access)
                )
                .on(RouterPath(path), method: method, responder: RouteResponder(route: route))
            if let index = methods.firstIndex(where: { $0.path == path }) {
                methods[index].methods.append(method)
            } else {
                methods.append((path, [method]))
            }
        }
        // The router has no answer for other methods of a path.
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
            // The router knows no other methods. No route has TRACE: the reply names the methods of the path.
            var head = request.head
            head.method = .trace
            request = Request(head: head, body: request.body)
        }
        let context = GatewayContext(source: .init(logger: logger, origin: source, limits: limits))
        let response: Response
        do { response = try await router.respond(to: request, context: context) } catch {
            // Only an error outside of the outermost middleware.
            response = APIReply(RequestRefusal(.internalFailure)).response
        }
        report.answered(response.status.code, context.routePath ?? "none", in: ContinuousClock.now - began)
        return response
    }

    package func refused(by listener: String, _ source: RequestSource, _ code: ProblemDetails.Code) {
        report.refused(code.rawValue, "a connection", source)
    }
}

/// Refuses a method that a path does not have.
private struct OtherMethodResponder: HTTPResponder {
    let allowed: [String]

    @concurrent
    func respond(to request: Request, context: GatewayContext) async throws -> Response {
        context.coreContext.endpointPath.value = GatewayContext.noRoute
        throw RequestRefusal(.methodNotAllowed, allowed: allowed)
    }
}
