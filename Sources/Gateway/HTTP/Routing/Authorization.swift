// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import HummingbirdCore
import NetworkAddresses

/// Identifies the callers of one listener's requests. Only this type reads credentials.
struct Authorization: Sendable {
    let service: GatewayService
    /// The users whose processes may use the Unix socket; `nil` for other listeners.
    let socketUsers: Set<UInt32>?

    /// Returns the caller of a request, and the secret if the route may need it.
    /// - Throws: ``GatewayError`` if the caller does not have the route's permission.
    func caller(
        of request: Request, from source: RequestSource, _ access: RouteAccess
    ) async throws(GatewayError) -> (Caller, bearer: String?) {
        if let socketUsers {
            guard case .process(let user) = source, socketUsers.contains(user) else { throw .forbidden }
            return (try access.permitted(.local(user)), nil)
        }
        switch access {
        case .open, .addKey: return (.nobody, nil)
        case .invitation:
            guard let bearer = try RequestFields.bearer(request.headers) else { throw .unauthorized }
            return (.nobody, bearer)
        case .localRead where isLocalReader(request, source): return (.gateway, nil)
        case .device, .read, .manage, .socket, .localRead:
            let bearer = try RequestFields.bearer(request.headers)
            let caller = try await service.caller(bearer: bearer, from: source.address ?? .v4(0))
            return (try access.permitted(caller), bearer)
        }
    }

    /// Whether a process of this host may read without a token.
    private func isLocalReader(_ request: Request, _ source: RequestSource) -> Bool {
        !service.settings.metricsNeedToken && source.isLocal && !request.headers.contains(.authorization)
            && isOfThisHost(request)
    }

    /// Whether the authority of the request is `localhost` or a loopback address. A web page that reaches this host by
    /// another name is refused, which prevents DNS rebinding.
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

extension RouteAccess {
    fileprivate func permitted(_ caller: Caller) throws(GatewayError) -> Caller {
        if let permission { try caller.check(permission) }
        return caller
    }
}
