// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
package import TrustPinning

/// Asks servers for their certificates, and leaves before anything else is said.
package struct ServerProbe: Sendable {
    /// The longest that one server may take.
    package var timeout: Duration = .seconds(15)

    package init() {}

    /// What a server presents, in DER, its own certificate first.
    /// - Parameters:
    ///   - host: the name that is asked for.
    ///   - place: where to connect to instead, as `host:port`.
    package func chain(
        of host: HostName, port: Int, at place: String? = nil
    ) async throws(PinnedSessionError) -> [[UInt8]] {
        let name = host.description.contains(":") ? "[\(host)]" : host.description
        guard let endpoint = Endpoint(authority: "\(name):\(port)") else { throw .invalidRequest("\(port) is no port") }
        var detours: [Endpoint: Endpoint] = [:]
        if let place {
            guard let other = Endpoint(authority: place) else {
                throw .invalidRequest("'\(place)' is no place to connect to: HOST:PORT is expected")
            }
            detours[endpoint] = other
        }
        let presented = NIOLockedValueBox<[[UInt8]]?>(nil)
        let tls: PinnedTLS
        do {
            tls = try PinnedTLS { chain in
                presented.withLockedValue { $0 = chain.certificates }
                return ServerVerdict(isTrusted: false, reason: "only asked for its certificates")
            }
        } catch {
            throw .handshakeFailed(error.description)
        }
        let connector = Connector(
            tls: tls, group: MultiThreadedEventLoopGroup.singleton, connectTimeout: TimeAmount(timeout),
            keepAlive: .seconds(1), detours: detours)
        let events = Connector.Events(onIdle: { $0.close() }, onClose: { _ in }, onUnused: {})
        let result = await connector.connect(tls.key(for: endpoint), deadline: .distantFuture, events: events)
        if let chain = presented.withLockedValue({ $0 }), !chain.isEmpty { return chain }
        switch result {
        case .failure(let error): throw error
        case .success(let connection):
            connection.close()
            throw .handshakeFailed("the server presented no certificate")
        }
    }
}
