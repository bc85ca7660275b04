// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
package import TrustPinning

/// Fetches the certificates of servers, and closes the connection during the handshake.
package struct ServerProbe: Sendable {
    /// The maximum time for one server.
    package var timeout: Duration = .seconds(15)

    package init() {}

    /// Returns the certificates that a server sends, in DER, its own certificate first.
    /// - Parameters:
    ///   - host: The server name to request.
    ///   - place: The address to connect to instead, as `host:port`.
    package func chain(
        of host: HostName, port: Int, at place: String? = nil
    ) async throws(PinnedSessionError) -> [[UInt8]] {
        let name = host.description.contains(":") ? "[\(host)]" : host.description
        guard let endpoint = Endpoint(authority: "\(name):\(port)") else {
            throw .invalidRequest("the port must be between 1 and 65535, not \(port)")
        }
        var detours: [Endpoint: Endpoint] = [:]
        if let place {
            guard let other = Endpoint(authority: place) else {
                throw .invalidRequest("'\(place)' must have the form HOST:PORT")
            }
            detours[endpoint] = other
        }
        let presented = NIOLockedValueBox<[[UInt8]]?>(nil)
        let tls: PinnedTLS
        do {
            tls = try PinnedTLS { chain in
                presented.withLockedValue { $0 = chain.certificates }
                return ServerVerdict(isTrusted: false, reason: "only its certificates were requested")
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
