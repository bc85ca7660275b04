// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    import Foundation
    import NetworkAddresses
    import Provisioning
    import TrustPinning
    import TrustPinningFoundation

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    /// One request in a session of its own. Sockets have no marks here: an extension's own are not routed into its tunnel.
    struct PinnedExchange: Sendable {
        let request: ProvisioningRequest
        let trust: TrustEvaluator
        let now: @Sendable () -> Date

        func reply() async throws(PinnedSessionError) -> ProvisioningReply {
            var configuration = PinnedSession.Configuration()
            configuration.idleTimeout = request.timeout
            configuration.wholeTimeout = request.timeout
            configuration.dataLimit = request.replyLimit
            configuration.redirects = .answer
            if let place = request.server.place {
                try configuration.setDetour(from: request.server.authority, to: place)
            }
            let session = PinnedSession(
                trust: trust, identities: nil, configuration: configuration, base: .ephemeral, now: now)
            defer { session.finish() }
            guard let url = URL(string: "https://\(request.server.authority)\(request.target)") else {
                throw .invalidRequest("\(request) is no URL")
            }
            var head = URLRequest(url: url)
            head.httpMethod = request.method.rawValue
            head.httpBody = request.body.map { Data($0) }
            for field in request.fields where field.name.lowercased() != "host" {
                head.setValue(field.value, forHTTPHeaderField: field.name)
            }
            if let bearer = request.authorization { head.setValue(bearer, forHTTPHeaderField: "Authorization") }
            let (data, response) = try await session.data(for: head)
            guard let status = (response as? HTTPURLResponse)?.statusCode else {
                throw .invalidResponse("it is not HTTP")
            }
            return ProvisioningReply(status: status, body: Array(data))
        }
    }
#endif
