// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !canImport(Security)
    import Foundation
    import NIOHTTP1
    import NetworkAddresses
    import Provisioning
    import TrustPinning
    import TrustPinningNIO

    extension ProvisioningRequest {
        /// Sends the request on a new connection.
        func reply(
            trust: TrustEvaluator, now: @escaping @Sendable () -> Date
        ) async throws(PinnedSessionError) -> ProvisioningReply {
            var configuration = PinnedSession.Configuration()
            configuration.connectTimeout = timeout
            configuration.wholeTimeout = timeout
            configuration.dataLimit = replyLimit
            configuration.streamLimit = replyLimit
            configuration.redirects = .answer
            configuration.socketMark = socketMark
            if let place = server.place { try configuration.setDetour(from: server.authority, to: place) }
            let tls: PinnedTLS
            do throws(PinnedTLSError) { tls = try PinnedTLS(trust: trust, now: now) } catch {
                throw .invalidRequest(error.description)
            }
            let session = PinnedSession(tls: tls, configuration: configuration)
            defer { session.finish() }
            guard let url = URL(string: "https://\(server.authority)\(target)") else {
                throw .invalidRequest("\(self) is not a URL")
            }
            // The session adds the host.
            var headers = HTTPHeaders(fields.filter { $0.name.lowercased() != "host" })
            if let authorization { headers.add(name: "Authorization", value: authorization) }
            var pinned = PinnedRequest(url: url, method: HTTPMethod(rawValue: method.rawValue), headers: headers)
            if let body { pinned.body = .bytes(body) }
            let (data, response) = try await session.data(for: pinned)
            return ProvisioningReply(status: response.statusCode, body: Array(data))
        }
    }
#endif
