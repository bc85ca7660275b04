// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Foundation
    public import TrustPinning

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    /// Fetches signed policies from a URL, over a session that is pinned itself.
    public struct PinnedEnvelopeTransport: EnvelopeTransport {
        private let session: PinnedSession
        private let url: URL

        /// A transport that gets the envelope at `url`.
        public init(session: PinnedSession, url: URL) {
            self.session = session
            self.url = url
        }

        /// The current envelope in JSON.
        /// - Throws: `PinnedSessionError`, or `EnvelopeError` with `fetchFailed` for any status but 200.
        public func fetch() async throws -> [UInt8] {
            let (data, response) = try await session.data(
                for: URLRequest(url: url), limit: PolicyEnvelope.maximumSize)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            guard status == 200 else {
                throw EnvelopeError(.fetchFailed, "the server answered with status \(status)")
            }
            return Array(data)
        }
    }

    /// Posts reports of failures over a session of its own, whose servers need system trust and no pins: a report about a
    /// failed pin must not fail by it, and a server of reports that fails must not be reported to itself.
    public struct SessionReportTransport: ReportTransport {
        /// Why a report did not arrive.
        public enum Failure: Error, Equatable {
            /// This is no `https` URL.
            case badURI(String)
            /// The server answered with this status.
            case status(Int)
        }

        private let session: PinnedSession

        /// A transport to servers that `systemTrust` vouches for.
        public init(systemTrust: any SystemTrust = TrustEvaluator.platformTrust) {
            self.init(systemTrust: systemTrust, base: .ephemeral, now: { Date() })
        }

        init(systemTrust: any SystemTrust, base: URLSessionConfiguration, now: @escaping @Sendable () -> Date) {
            // Reports are small and seldom, and nobody waits for them.
            var configuration = PinnedSession.Configuration()
            configuration.wholeTimeout = .seconds(60)
            configuration.connectionsPerHost = 1
            configuration.dataLimit = 64 * 1024
            let trust = TrustEvaluator(policies: .systemTrustOnly, systemTrust: systemTrust)
            session = PinnedSession(
                trust: trust, identities: nil, configuration: configuration, base: base, now: now)
        }

        /// Posts a report.
        /// - Throws: ``Failure``, or `PinnedSessionError`; the reporter tries again then.
        public func send(_ json: [UInt8], to uri: String) async throws {
            guard let url = URL(string: uri) else { throw Failure.badURI(uri) }
            var request = URLRequest(url: url)
            request.httpMethod = "POST"
            request.httpBody = Data(json)
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            let (_, response) = try await session.data(for: request)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            guard (200..<300).contains(status) else { throw Failure.status(status) }
        }
    }
#endif
