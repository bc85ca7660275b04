// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    package import Foundation
    import NetworkAddresses
    package import Provisioning
    package import TrustPinning
    import TrustPinningFoundation

    #if canImport(FoundationNetworking)
        package import FoundationNetworking
    #endif

    extension ProvisioningRequest {
        /// Sends the request in a new session. The sockets have no mark, because the system does not route an
        /// extension's sockets into the tunnel of the extension.
        /// - Parameters:
        ///   - trust: Verifies the server.
        ///   - now: The time at which certificates must be valid.
        ///   - base: Further settings of the session.
        package func reply(
            trust: TrustEvaluator, now: @escaping @Sendable () -> Date, base: URLSessionConfiguration = .ephemeral
        ) async throws(PinnedSessionError) -> ProvisioningReply {
            var configuration = PinnedSession.Configuration()
            configuration.idleTimeout = timeout
            configuration.wholeTimeout = timeout
            configuration.dataLimit = replyLimit
            configuration.redirects = .answer
            if let place = server.place { try configuration.setDetour(from: server.authority, to: place) }
            let session = PinnedSession(
                trust: trust, identities: nil, configuration: configuration, base: base, now: now)
            defer { session.finish() }
            guard let url = URL(string: "https://\(server.authority)\(target)") else {
                throw .invalidRequest("\(self) is not a URL")
            }
            var head = URLRequest(url: url)
            head.httpMethod = method.rawValue
            head.httpBody = body.map { Data($0) }
            for field in fields where field.name.lowercased() != "host" {
                head.setValue(field.value, forHTTPHeaderField: field.name)
            }
            if let authorization { head.setValue(authorization, forHTTPHeaderField: "Authorization") }
            let (data, response) = try await session.data(for: head)
            guard let status = (response as? HTTPURLResponse)?.statusCode else {
                throw .invalidResponse("the response is not HTTP")
            }
            return ProvisioningReply(status: status, body: Array(data))
        }
    }
#endif
