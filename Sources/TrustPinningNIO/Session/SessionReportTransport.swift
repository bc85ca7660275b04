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

/// Sends failure reports over a separate session, whose servers need system trust but no pins. Thus a report about a
/// failed pin does not itself fail because of that pin, and a failing report server does not cause reports about
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
        self.init(systemTrust: systemTrust, configuration: Self.configuration)
    }

    init(
        systemTrust: any SystemTrust, configuration: PinnedSession.Configuration,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        let trust = TrustEvaluator(policies: .systemTrustOnly, systemTrust: systemTrust)
        session = PinnedSession(tls: PinnedTLS(checkedLater: trust, now: now), configuration: configuration)
    }

    /// The limits for reports, which are small, rare and not urgent.
    static var configuration: PinnedSession.Configuration {
        var configuration = PinnedSession.Configuration()
        configuration.wholeTimeout = .seconds(60)
        configuration.keepAlive = .seconds(5)
        configuration.connectionsPerHost = 1
        configuration.dataLimit = 64 * 1024
        return configuration
    }

    /// Sends a report.
    /// - Throws: ``Failure`` or `PinnedSessionError`. The reporter then tries again.
    public func send(_ json: [UInt8], to uri: String) async throws {
        guard let url = URL(string: uri) else { throw Failure.badURI(uri) }
        let request = PinnedRequest(
            url: url, method: .POST, headers: ["Content-Type": "application/json"], body: .bytes(json))
        let (_, response) = try await session.data(for: request)
        guard (200..<300).contains(response.statusCode) else { throw Failure.status(response.statusCode) }
    }
}
