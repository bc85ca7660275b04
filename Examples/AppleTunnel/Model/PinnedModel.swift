// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import Observation
public import TrustPinning
public import TrustPinningFoundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The state and actions of the page of the pinned request, which is sent only to a server with one of the pinned keys.
@MainActor @Observable
public final class PinnedModel {
    /// The result of a request.
    public struct Outcome: Equatable, Sendable {
        /// Whether the server was the right one and answered.
        public var isTrusted: Bool
        /// The text for the user.
        public var text: String
    }

    /// The address of the request.
    public var address = "https://example.com/"
    /// The pins of the server's keys, one in each line (`culvert pin show HOST` prints them): at least one in use and one in
    /// reserve.
    public var pins = ""
    /// The result of the last request, or `nil` before the first.
    public private(set) var outcome: Outcome?
    /// Whether a request is in progress, which the spinner shows.
    public private(set) var isBusy = false

    private let makeSession: @Sendable (PolicySet) -> PinnedSession

    /// A model whose requests are checked by the system and the pins.
    public convenience init() {
        self.init { policies in PinnedSession(trust: TrustEvaluator(policies: policies, systemTrust: PlatformTrust())) }
    }

    /// A model with sessions of the caller's.
    public init(_ makeSession: @escaping @Sendable (PolicySet) -> PinnedSession) { self.makeSession = makeSession }

    /// Sends the request. It leaves the device only if the server is the right one.
    public func send() async {
        isBusy = true
        defer { isBusy = false }
        do {
            guard let url = URL(string: address), let host = url.host, !host.isEmpty else {
                outcome = Outcome(isTrusted: false, text: "'\(address)' is not the address of a page")
                return
            }
            // The first is in use, the others are for the day when it is not.
            let texts = pins.split(whereSeparator: \.isWhitespace).map(String.init)
            let pins = try texts.enumerated().map { try Pin(.spki, $1, role: $0 == 0 ? .primary : .backup) }
            let policies = try PolicySet([HostPolicy(.exact(host), PinningPolicy(pins: pins))], unlisted: .refuse)
            let (data, response) = try await makeSession(policies).data(from: url)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            outcome = Outcome(isTrusted: true, text: "\(host) answered with status \(status) and \(data.count) bytes")
        } catch {
            outcome = Outcome(isTrusted: false, text: "\(error)")
        }
    }
}
