// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Hummingbird
import Logging
import Provisioning

/// A request's origin, its limits and its place in the router.
struct GatewayContext: RequestContext {
    struct Source: RequestContextSource {
        let logger: Logger
        let origin: RequestSource
        let limits: HTTPLimits
    }

    var coreContext: CoreRequestContextStorage
    let origin: RequestSource
    let limits: HTTPLimits

    init(source: Source) {
        coreContext = CoreRequestContextStorage(source: source)
        origin = source.origin
        limits = source.limits
    }

    /// The template of the route's path; `nil` if no route matches.
    var routePath: String? { endpointPath.flatMap { $0 == Self.noRoute ? nil : $0 } }

    /// The path that Hummingbird reports for a request without a route.
    static let noRoute = "NotFound"
}

/// A refusal before the handler runs, or by a time limit.
struct RequestRefusal: Error {
    let problem: ProblemDetails
    var retryAfter: Int?
    /// The methods of the path, if the request's method is not one of them.
    var allowed: [String] = []

    init(_ code: ProblemDetails.Code, detail: String? = nil, allowed: [String] = []) {
        problem = ProblemDetails(code, detail: detail)
        self.allowed = allowed
    }

    init(_ error: GatewayError) {
        problem = error.problem
        retryAfter = error.retryAfter
    }
}
