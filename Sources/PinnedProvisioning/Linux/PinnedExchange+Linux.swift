// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !canImport(Security)
    import Foundation
    import NIOHTTP1
    import NetworkAddresses
    import Provisioning
    import TrustPinning
    import TrustPinningNIO

    /// One request on a connection of its own.
    struct PinnedExchange: Sendable {
        let request: ProvisioningRequest
        let trust: TrustEvaluator
        let now: @Sendable () -> Date

        func reply() async throws(PinnedSessionError) -> ProvisioningReply {
            let session = try session()
            defer { session.finish() }
            guard let url = URL(string: "https://\(request.server.authority)\(request.target)") else {
                throw .invalidRequest("\(request) is no URL")
            }
            var pinned = PinnedRequest(
                url: url, method: HTTPMethod(rawValue: request.method.rawValue), headers: headers)
            if let body = request.body { pinned.body = .bytes(body) }
            let (data, response) = try await session.data(for: pinned)
            return ProvisioningReply(status: response.statusCode, body: Array(data))
        }

        private func session() throws(PinnedSessionError) -> PinnedSession {
            var configuration = PinnedSession.Configuration()
            configuration.connectTimeout = request.timeout
            configuration.wholeTimeout = request.timeout
            configuration.dataLimit = request.replyLimit
            configuration.streamLimit = request.replyLimit
            configuration.redirects = .answer
            configuration.socketMark = request.socketMark
            if let place = request.server.place {
                try configuration.setDetour(from: request.server.authority, to: place)
            }
            do throws(PinnedTLSError) {
                return PinnedSession(tls: try PinnedTLS(trust: trust, now: now), configuration: configuration)
            } catch {
                throw .invalidRequest(error.description)
            }
        }

        /// The session says itself who the host is.
        private var headers: HTTPHeaders {
            var headers = HTTPHeaders(request.fields.filter { $0.name.lowercased() != "host" })
            if let bearer = request.authorization { headers.add(name: "Authorization", value: bearer) }
            return headers
        }
    }
#endif
