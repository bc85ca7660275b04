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

    /// Answers the challenges of `URLSession` that are about TLS: who the server is, and who the client is.
    ///
    /// An app's own delegate passes its challenges on, those of sessions and those of tasks:
    ///
    ///     func urlSession(
    ///         _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    ///         completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ///     ) {
    ///         if responder.respond(to: challenge, completionHandler: completionHandler) { return }
    ///         completionHandler(.performDefaultHandling, nil)
    ///     }
    ///
    /// - A server is accepted if the evaluator trusts it by the policies in force at this moment, and refused otherwise,
    ///   before anything of the request was sent.
    /// - A client identity is shown to a host that it is for, that asked, and that was found trusted by this responder.
    ///   Where there is none, or it has ended, the connection goes on without, and never with one that the platform
    ///   would choose.
    ///
    /// It is asked about handshakes, not about requests. Over HTTP/2 and 3 a `URLSession` may send a request for one host
    /// over its connection to another whose certificate has both names (RFC 9113, section 9.1.1): the request then goes by
    /// the other host's verdict and client identity. Use one `URLSession` for each host, or for hosts of one policy and one
    /// client identity; ``PinnedSession`` does.
    public final class ChallengeResponder: Sendable {
        /// What a challenge is answered with.
        public typealias Answer = (disposition: URLSession.AuthChallengeDisposition, credential: URLCredential?)

        private let trust: TrustEvaluator
        private let identities: ClientIdentities?
        private let now: @Sendable () -> Date
        /// The hosts that places stand for, by how challenges name the places.
        private let meant: [String: HTTPSEndpoint]
        private let verdicts = Mutex(VerdictMemory())

        /// A responder that trusts whom `trust` trusts, and shows the identities of `identities`.
        public convenience init(trust: TrustEvaluator, identities: ClientIdentities? = nil) {
            self.init(trust: trust, identities: identities, now: { Date() })
        }

        /// - Parameters:
        ///   - detours: the places that are connected to for some hosts.
        ///   - now: the time that certificates and pins have to be valid at.
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

        /// Answers a challenge if it is about TLS. The handler is called exactly once then, on any thread.
        /// - Returns: whether it is. If not, the handler is left alone.
        @discardableResult
        public func respond(
            to challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) -> Bool {
            guard Self.isAboutTLS(challenge) else { return false }
            Task {
                let answer = await self.answer(to: challenge)
                completionHandler(answer?.disposition ?? .cancelAuthenticationChallenge, answer?.credential)
            }
            return true
        }

        /// The answer to a challenge; nil if it is not about TLS.
        public func answer(to challenge: URLAuthenticationChallenge) async -> Answer? {
            switch challenge.protectionSpace.authenticationMethod {
            case NSURLAuthenticationMethodServerTrust: await answerAboutServer(challenge.protectionSpace)
            case NSURLAuthenticationMethodClientCertificate: await answerAboutClient(challenge.protectionSpace)
            default: nil
            }
        }

        /// The last verdict on a host and port, which says why a task of theirs was cancelled; nil if there is none. Those on
        /// the last 256 servers are kept.
        public func verdict(on host: String, port: Int = 443) -> ServerVerdict? {
            verdict(on: host, port: port, since: nil)
        }

        /// - Parameter start: leaves out a verdict that is older.
        func verdict(on host: String, port: Int, since start: ContinuousClock.Instant?) -> ServerVerdict? {
            verdicts.withLock { $0.verdict(on: Self.key(host, port), since: start) }
        }

        private static func isAboutTLS(_ challenge: URLAuthenticationChallenge) -> Bool {
            [NSURLAuthenticationMethodServerTrust, NSURLAuthenticationMethodClientCertificate]
                .contains(challenge.protectionSpace.authenticationMethod)
        }

        private static func key(_ host: String, _ port: Int) -> String {
            "\((try? HostName(host))?.description ?? host) \(port)"
        }

        /// The host and port that a challenge is about: what was asked for, wherever the connection leads.
        private func subject(of space: URLProtectionSpace) -> (host: String, port: Int) {
            guard let host = meant[Self.key(space.host, space.port)] else { return (space.host, space.port) }
            return (host.host.description, host.port)
        }

        private func answerAboutServer(_ space: URLProtectionSpace) async -> Answer {
            let (host, port) = subject(of: space)
            var verdict = ServerVerdict(isTrusted: false, reason: "the server showed nothing to trust")
            if let shown = space.serverTrust {
                verdict = ServerVerdict(await trust.evaluate(shown, host: host, port: port, at: now()))
            }
            let isTrusted = verdict.isTrusted
            verdicts.withLock { [verdict] in $0.note(verdict, on: Self.key(host, port)) }
            guard isTrusted, let accepted = space.serverTrust else { return (.cancelAuthenticationChallenge, nil) }
            return (.useCredential, URLCredential(trust: accepted))
        }

        private func answerAboutClient(_ space: URLProtectionSpace) async -> Answer {
            let (name, port) = subject(of: space)
            guard let identities, verdict(on: name, port: port)?.isTrusted == true,
                let host = try? HostName(name), let identity = await identities.identity(askedBy: host, for: trust)
            else { return (.rejectProtectionSpace, nil) }
            return (.useCredential, identity.credential)
        }
    }

    /// The last verdict on each of the servers that were judged last.
    private struct VerdictMemory {
        private static let limit = 256
        private var entries: [String: (verdict: ServerVerdict, instant: ContinuousClock.Instant)] = [:]

        func verdict(on key: String, since start: ContinuousClock.Instant?) -> ServerVerdict? {
            guard let entry = entries[key] else { return nil }
            if let start, entry.instant < start { return nil }
            return entry.verdict
        }

        mutating func note(_ verdict: ServerVerdict, on key: String) {
            entries[key] = (verdict, .now)
            guard entries.count > Self.limit,
                let oldest = entries.min(by: { $0.value.instant < $1.value.instant })
            else { return }
            entries[oldest.key] = nil
        }
    }

    /// A delegate for a `URLSession` whose challenges about TLS a ``ChallengeResponder`` answers.
    ///
    ///     let session = URLSession(
    ///         configuration: .ephemeral, delegate: PinningDelegate(ChallengeResponder(trust: evaluator)), delegateQueue: nil)
    ///
    /// The session keeps it until it is invalidated. It should be for one host, or for hosts of one policy and one client
    /// identity, because requests may share connections: see ``ChallengeResponder``.
    public final class PinningDelegate: NSObject, URLSessionTaskDelegate {
        /// Answers challenges that are not about TLS: passwords, for example.
        public typealias Others = @Sendable (URLAuthenticationChallenge) async -> ChallengeResponder.Answer

        private let responder: ChallengeResponder
        private let others: Others

        /// A delegate.
        /// - Parameter others: answers challenges that are not about TLS; the platform's own handling by default.
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

        /// Answers a challenge of a task, in the same way.
        public func urlSession(
            _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            urlSession(session, didReceive: challenge, completionHandler: completionHandler)
        }
    }
#endif
