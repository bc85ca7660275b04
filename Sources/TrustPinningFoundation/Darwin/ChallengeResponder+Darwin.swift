// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Foundation
    internal import Security
    internal import Synchronization
    public import TrustPinning

    #if canImport(FoundationNetworking)
        public import FoundationNetworking
    #endif

    /// Answers the TLS challenges of `URLSession`: server trust and client certificates.
    ///
    /// The app's delegate must pass on its challenges, both of sessions and of tasks:
    ///
    ///     func urlSession(
    ///         _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    ///         completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ///     ) {
    ///         if responder.respond(to: challenge, completionHandler: completionHandler) { return }
    ///         completionHandler(.performDefaultHandling, nil)
    ///     }
    ///
    /// - A server is accepted if the evaluator trusts it by the current policies. Otherwise it is refused before any
    ///   part of the request was sent.
    /// - A client identity is sent only to a host that it is bound to, that requests it, and that this responder
    ///   trusts. Without a valid identity, the connection continues without one; the platform never chooses one.
    ///
    /// Challenges concern handshakes, not requests. Over HTTP/2 and 3, a `URLSession` may send a request for one host
    /// on a connection to another host whose certificate has both names (RFC 9113, section 9.1.1). The verdict and the
    /// client identity of the other host then apply to the request. Use one `URLSession` for each host, or for hosts
    /// with one policy and one client identity, as ``PinnedSession`` does.
    public final class ChallengeResponder: Sendable {
        /// The answer to a challenge.
        public typealias Answer = (disposition: URLSession.AuthChallengeDisposition, credential: URLCredential?)

        private let trust: TrustEvaluator
        private let identities: ClientIdentities?
        private let now: @Sendable () -> Date
        /// The hosts whose connections lead to another destination, by the key of the destination, which challenges
        /// contain.
        private let meant: [String: HTTPSEndpoint]
        private let verdicts = Mutex(VerdictMemory())

        /// Creates a responder that evaluates servers with `trust`, and sends client identities of `identities`.
        public convenience init(trust: TrustEvaluator, identities: ClientIdentities? = nil) {
            self.init(trust: trust, identities: identities, now: { Date() })
        }

        /// - Parameters:
        ///   - detours: The destinations of the connections to some hosts.
        ///   - now: The time at which certificates and pins must be valid.
        package init(
            trust: TrustEvaluator, identities: ClientIdentities?, detours: [HTTPSEndpoint: HTTPSEndpoint] = [:],
            now: @escaping @Sendable () -> Date
        ) {
            var meant: [String: HTTPSEndpoint] = [:]
            for (host, place) in detours { meant[Self.key(place.host.description, place.port)] = host }
            self.meant = meant
            self.trust = trust
            self.identities = identities
            self.now = now
        }

        /// Answers a challenge if it concerns TLS. If so, the handler is called exactly once, on any thread.
        /// - Returns: Whether the challenge concerns TLS. If not, the handler is not called.
        @discardableResult
        public func respond(
            to challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) -> Bool {
            guard Self.concernsTLS(challenge) else { return false }
            Task {
                let answer = await self.answer(to: challenge)
                completionHandler(answer?.disposition ?? .cancelAuthenticationChallenge, answer?.credential)
            }
            return true
        }

        /// Returns the answer to a challenge, or `nil` if it does not concern TLS.
        public func answer(to challenge: URLAuthenticationChallenge) async -> Answer? {
            switch challenge.protectionSpace.authenticationMethod {
            case NSURLAuthenticationMethodServerTrust: await evaluateServer(challenge.protectionSpace)
            case NSURLAuthenticationMethodClientCertificate: await selectIdentity(challenge.protectionSpace)
            default: nil
            }
        }

        /// Returns the latest verdict on a host and port, which explains a cancelled task, or `nil` if there is none.
        /// The verdicts on the latest 256 servers are stored.
        public func verdict(on host: String, port: Int = 443) -> ServerVerdict? {
            verdict(on: host, port: port, since: nil)
        }

        /// - Parameter start: The time before which verdicts are ignored; `nil` for no such time.
        func verdict(on host: String, port: Int, since start: ContinuousClock.Instant?) -> ServerVerdict? {
            verdicts.withLock { $0.verdict(on: Self.key(host, port), since: start) }
        }

        private static func concernsTLS(_ challenge: URLAuthenticationChallenge) -> Bool {
            [NSURLAuthenticationMethodServerTrust, NSURLAuthenticationMethodClientCertificate]
                .contains(challenge.protectionSpace.authenticationMethod)
        }

        private static func key(_ host: String, _ port: Int) -> String {
            "\((try? HostName(host))?.description ?? host) \(port)"
        }

        /// Returns the host and port of the request that caused a challenge, independently of the connection's
        /// destination.
        private func subject(of space: URLProtectionSpace) -> (host: String, port: Int) {
            guard let host = meant[Self.key(space.host, space.port)] else { return (space.host, space.port) }
            return (host.host.description, host.port)
        }

        private func evaluateServer(_ space: URLProtectionSpace) async -> Answer {
            let (host, port) = subject(of: space)
            var verdict = ServerVerdict(isTrusted: false, reason: "the server presented no certificates")
            if let serverTrust = space.serverTrust {
                verdict = ServerVerdict(await trust.evaluate(serverTrust, host: host, port: port, at: now()))
            }
            let isTrusted = verdict.isTrusted
            verdicts.withLock { [verdict] in $0.record(verdict, on: Self.key(host, port)) }
            guard isTrusted, let accepted = space.serverTrust else { return (.cancelAuthenticationChallenge, nil) }
            return (.useCredential, URLCredential(trust: accepted))
        }

        private func selectIdentity(_ space: URLProtectionSpace) async -> Answer {
            let (name, port) = subject(of: space)
            guard let identities, verdict(on: name, port: port)?.isTrusted == true,
                let host = try? HostName(name), let identity = await identities.identity(requestedBy: host, for: trust)
            else { return (.rejectProtectionSpace, nil) }
            return (.useCredential, identity.credential)
        }
    }

    /// The latest verdict on each recent server.
    private struct VerdictMemory {
        private static let limit = 256
        private var entries: [String: (verdict: ServerVerdict, instant: ContinuousClock.Instant)] = [:]

        func verdict(on key: String, since start: ContinuousClock.Instant?) -> ServerVerdict? {
            guard let entry = entries[key] else { return nil }
            if let start, entry.instant < start { return nil }
            return entry.verdict
        }

        mutating func record(_ verdict: ServerVerdict, on key: String) {
            entries[key] = (verdict, .now)
            guard entries.count > Self.limit,
                let oldest = entries.min(by: { $0.value.instant < $1.value.instant })
            else { return }
            entries[oldest.key] = nil
        }
    }

    /// A `URLSession` delegate that passes TLS challenges to a ``ChallengeResponder``.
    ///
    ///     let session = URLSession(
    ///         configuration: .ephemeral, delegate: PinningDelegate(ChallengeResponder(trust: evaluator)), delegateQueue: nil)
    ///
    /// The session retains the delegate until it is invalidated. Use it for one host, or for hosts with one policy and
    /// one client identity, because requests may share connections: see ``ChallengeResponder``.
    public final class PinningDelegate: NSObject, URLSessionTaskDelegate {
        /// Answers challenges that do not concern TLS, such as password requests.
        public typealias Others = @Sendable (URLAuthenticationChallenge) async -> ChallengeResponder.Answer

        private let responder: ChallengeResponder
        private let others: Others

        /// Creates a delegate.
        /// - Parameter others: Answers challenges that do not concern TLS; by default, the platform handles them.
        public init(
            _ responder: ChallengeResponder, others: @escaping Others = { _ in (.performDefaultHandling, nil) }
        ) {
            self.responder = responder
            self.others = others
        }

        /// Answers a challenge of the session.
        public func urlSession(
            _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            if responder.respond(to: challenge, completionHandler: completionHandler) { return }
            Task { [others] in
                let answer = await others(challenge)
                completionHandler(answer.disposition, answer.credential)
            }
        }

        /// Answers a challenge of a task in the same way as a challenge of the session.
        public func urlSession(
            _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            urlSession(session, didReceive: challenge, completionHandler: completionHandler)
        }
    }
#endif
