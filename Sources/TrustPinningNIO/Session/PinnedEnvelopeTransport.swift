// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
public import TrustPinning

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
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
        let (body, response) = try await session.bytes(from: url)
        guard response.statusCode == 200 else {
            throw EnvelopeError(.fetchFailed, "the server responded with status \(response.statusCode)")
        }
        return Array(try await body.collect(upTo: PolicyEnvelope.maximumSize).readableBytesView)
    }
}
