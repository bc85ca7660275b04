// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
public import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

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
        self.init(systemTrust: systemTrust, configuration: Self.configuration)
    }

    init(
        systemTrust: any SystemTrust, configuration: PinnedSession.Configuration,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        let trust = TrustEvaluator(policies: .systemTrustOnly, systemTrust: systemTrust)
        session = PinnedSession(tls: PinnedTLS(checkedLater: trust, now: now), configuration: configuration)
    }

    /// Reports are small and seldom, and nobody waits for them.
    static var configuration: PinnedSession.Configuration {
        var configuration = PinnedSession.Configuration()
        configuration.wholeTimeout = .seconds(60)
        configuration.keepAlive = .seconds(5)
        configuration.connectionsPerHost = 1
        configuration.dataLimit = 64 * 1024
        return configuration
    }

    /// Posts a report.
    /// - Throws: ``Failure``, or `PinnedSessionError`; the reporter tries again then.
    public func send(_ json: [UInt8], to uri: String) async throws {
        guard let url = URL(string: uri) else { throw Failure.badURI(uri) }
        let request = PinnedRequest(
            url: url, method: .POST, headers: ["Content-Type": "application/json"], body: .bytes(json))
        let (_, response) = try await session.data(for: request)
        guard (200..<300).contains(response.statusCode) else { throw Failure.status(response.statusCode) }
    }
}
