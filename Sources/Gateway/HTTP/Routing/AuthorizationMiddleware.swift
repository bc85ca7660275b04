// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Hummingbird
import HummingbirdCore
import NetworkAddresses

/// Finds the caller of a request, and refuses callers without the route's permission before more of the request is read.
///
/// Only this type reads credentials.
struct AuthorizationMiddleware: RouterMiddleware {
    let service: GatewayService
    /// The users whose processes may use the Unix socket; `nil` for other listeners.
    let socketUsers: Set<UInt32>?
    let access: RouteAccess

    // The package enables NonisolatedNonsendingByDefault, and Hummingbird does not.
    @concurrent
    func handle(
        _ request: Request, context: GatewayContext,
        next: @concurrent (Request, GatewayContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        (context.caller, context.bearer) = try await caller(request, context.origin)
        return try await next(request, context)
    }

    private func caller(
        _ request: Request, _ source: RequestSource
    ) async throws(GatewayError) -> (Caller, bearer: String?) {
        if let socketUsers {
            guard case .process(let user) = source, socketUsers.contains(user) else { throw .forbidden }
            return (try permitted(.local(user)), nil)
        }
        switch access {
        case .open, .addKey: return (.nobody, nil)
        case .invitation:
            guard let bearer = try RequestFields.bearer(request.headers) else { throw .unauthorized }
            return (.nobody, bearer)
        case .localRead where source.isLocal && !request.headers.contains(.authorization) && isOfThisHost(request):
            return (.gateway, nil)
        case .device, .read, .manage, .localRead:
            let bearer = try RequestFields.bearer(request.headers)
            let caller = try await service.caller(bearer: bearer, from: source.address ?? .v4(0))
            return (try permitted(caller), bearer)
        }
    }

    private func permitted(_ caller: Caller) throws(GatewayError) -> Caller {
        if let permission = access.permission { try caller.check(permission) }
        return caller
    }

    /// Whether the request names this host by an address of it: a page in a browser that was led here by a name of its own
    /// does not.
    private func isOfThisHost(_ request: Request) -> Bool {
        guard let authority = request.head.authority else { return false }
        var host = authority[...]
        if let colon = host.lastIndex(of: ":"), host[host.index(after: colon)...].allSatisfy(\.isNumber) {
            host = host[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        return host == "localhost" || (try? IPAddress(host))?.isLoopback == true
    }
}
