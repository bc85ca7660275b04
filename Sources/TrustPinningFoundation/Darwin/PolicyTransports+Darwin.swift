// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Foundation
    public import TrustPinning

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    /// Fetches signed policies from a URL, over a pinned session.
    public struct PinnedEnvelopeTransport: EnvelopeTransport {
        private let session: PinnedSession
        private let url: URL

        /// Creates a transport for the envelope at `url`.
        public init(session: PinnedSession, url: URL) {
            self.session = session
            self.url = url
        }

        /// Returns the current envelope in JSON.
        /// - Throws: `PinnedSessionError`, or `EnvelopeError` with `fetchFailed` for any status except 200.
        public func fetch() async throws -> [UInt8] {
            let (data, response) = try await session.data(
                for: URLRequest(url: url), limit: PolicyEnvelope.maximumSize)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            guard status == 200 else {
                throw EnvelopeError(.fetchFailed, "the server responded with status \(status)")
            }
            return Array(data)
        }
    }

    /// Sends failure reports over a separate session, whose servers need system trust but no pins. Thus a report about
    /// a failed pin does not itself fail because of that pin, and a failing report server does not cause reports about
    /// itself.
    public struct SessionReportTransport: ReportTransport {
        /// The error of a report that was not accepted.
        public enum Failure: Error, Equatable {
            /// The text is not a URL.
            case badURI(String)
            /// The server responded with this status.
            case status(Int)
        }

        private let session: PinnedSession

        /// Creates a transport to servers that `systemTrust` trusts.
        public init(systemTrust: any SystemTrust = TrustEvaluator.platformTrust) {
            self.init(systemTrust: systemTrust, base: .ephemeral, now: { Date() })
        }

        init(systemTrust: any SystemTrust, base: URLSessionConfiguration, now: @escaping @Sendable () -> Date) {
            // Reports are small, rare and not urgent.
            var configuration = PinnedSession.Configuration()
            configuration.wholeTimeout = .seconds(60)
            configuration.connectionsPerHost = 1
            configuration.dataLimit = 64 * 1024
            let trust = TrustEvaluator(policies: .systemTrustOnly, systemTrust: systemTrust)
            session = PinnedSession(
                trust: trust, identities: nil, configuration: configuration, base: base, now: now)
        }

        /// Sends a report.
        /// - Throws: ``Failure`` or `PinnedSessionError`. The reporter then tries again.
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
