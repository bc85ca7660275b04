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

    /// A client for HTTPS that talks to trusted servers only: a `URLSession` with a ``ChallengeResponder``, and the limits,
    /// redirects and errors of the session that `TrustPinningNIO` has for Linux.
    ///
    ///     let session = PinnedSession(trust: evaluator)
    ///     let (data, response) = try await session.data(from: url)
    ///
    /// Connections are used again only under the policies and client identities that they were made with. Cookies, stored
    /// credentials and caches are not used. When the session goes, so does its `URLSession`.
    public final class PinnedSession: Sendable {
        /// Limits and habits of a session.
        public struct Configuration: Sendable {
            /// The longest that nothing may be sent or received, connecting included.
            public var idleTimeout: Duration = .seconds(60)
            /// The longest that a request may take with all its redirects.
            public var wholeTimeout: Duration = .seconds(300)
            /// The most connections to one host.
            public var connectionsPerHost = 6
            /// The longest body that is taken, in bytes after content codings were undone.
            public var dataLimit = 16 * 1024 * 1024
            /// Where redirects may lead.
            public var redirects = Redirects.samePolicy(limit: 5)
            /// Sent as `User-Agent` where a request has none.
            public var userAgent: String? = "culvert"

            /// The defaults.
            public init() {}
        }

        /// Where redirects may lead.
        public typealias Redirects = RedirectRule

        /// What connections were made with.
        private struct Basis: Equatable {
            var policies: PolicySet
            var identities: UInt64
        }

        private struct State {
            var current: (basis: Basis, session: URLSession, delegate: SessionDelegate)?
            var isFinished = false
        }

        private let trust: TrustEvaluator
        private let identities: ClientIdentities?
        private let configuration: Configuration
        private let base: URLSessionConfiguration
        private let responder: ChallengeResponder
        private let state = Mutex(State())

        /// A session that talks to those whom `trust` trusts, and shows the identities of `identities` to the hosts they
        /// are for.
        /// - Parameter base: what else the `URLSession` needs, such as proxies; time-outs, connections, cookies,
        ///   credentials and caches are set by this.
        public convenience init(
            trust: TrustEvaluator, identities: ClientIdentities? = nil, configuration: Configuration = Configuration(),
            base: URLSessionConfiguration = .ephemeral
        ) {
            self.init(trust: trust, identities: identities, configuration: configuration, base: base, now: { Date() })
        }

        /// - Parameter now: the time that certificates and pins have to be valid at.
        package init(
            trust: TrustEvaluator, identities: ClientIdentities?, configuration: Configuration,
            base: URLSessionConfiguration, now: @escaping @Sendable () -> Date
        ) {
            self.trust = trust
            self.identities = identities
            self.configuration = configuration
            responder = ChallengeResponder(trust: trust, identities: identities, now: now)
            let own = base.copy() as? URLSessionConfiguration ?? .ephemeral
            own.timeoutIntervalForRequest = configuration.idleTimeout / .seconds(1)
            own.timeoutIntervalForResource = configuration.wholeTimeout / .seconds(1)
            own.httpMaximumConnectionsPerHost = configuration.connectionsPerHost
            own.tlsMinimumSupportedProtocolVersion = .TLSv12
            own.urlCache = nil
            own.requestCachePolicy = .reloadIgnoringLocalCacheData
            own.urlCredentialStorage = nil
            own.httpCookieStorage = nil
            own.httpShouldSetCookies = false
            self.base = own
        }

        deinit { finish() }

        /// Gets what is at `url`.
        /// - Throws: an error that says what failed; answers of any status are none.
        public func data(from url: URL) async throws(PinnedSessionError) -> (Data, URLResponse) {
            try await data(for: URLRequest(url: url))
        }

        /// Sends a request and gives its answer as a whole: an `HTTPURLResponse`.
        /// - Throws: an error that says what failed; answers of any status are none.
        public func data(for request: URLRequest) async throws(PinnedSessionError) -> (Data, URLResponse) {
            guard request.httpBodyStream == nil else {
                throw .invalidRequest("a body of an InputStream is not supported")
            }
            let deadline = ContinuousClock.now + configuration.wholeTimeout
            var request = request
            if let agent = configuration.userAgent, request.value(forHTTPHeaderField: "User-Agent") == nil {
                request.setValue(agent, forHTTPHeaderField: "User-Agent")
            }
            var count = 0
            while true {
                guard let url = request.url else { throw .invalidRequest("it has no URL") }
                let endpoint = try HTTPSEndpoint(url)
                let (data, response) = try await send(request, to: endpoint, until: deadline).get()
                let redirection = Redirection(configuration.redirects, policies: trust.policies)
                let next = try redirection.next(
                    after: url, method: request.httpMethod ?? "GET", isReplayable: true, status: response.statusCode,
                    location: response.value(forHTTPHeaderField: "Location"))
                guard let next else { return (data, response) }
                count += 1
                guard count <= next.limit else { throw .tooManyRedirects(limit: next.limit) }
                request.url = next.url
                for name in next.droppedFields { request.setValue(nil, forHTTPHeaderField: name) }
                if next.becomesGet {
                    request.httpMethod = "GET"
                    request.httpBody = nil
                }
            }
        }

        /// Closes the session: requests from now on fail, those that run come to their end.
        public func finish() {
            state.withLock { state in
                state.isFinished = true
                state.current?.session.finishTasksAndInvalidate()
                state.current = nil
            }
        }

        private func send(
            _ request: URLRequest, to endpoint: HTTPSEndpoint, until deadline: ContinuousClock.Instant
        ) async -> Result<(Data, HTTPURLResponse), PinnedSessionError> {
            guard let exchange = begin(request, endpoint) else { return .failure(.sessionClosed) }
            let timer = Task {
                try await Task.sleep(until: deadline, clock: .continuous)
                exchange.end(.timedOut(.whole))
            }
            defer { timer.cancel() }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { exchange.start($0) }
            } onCancel: {
                exchange.end(.cancelled)
            }
        }

        /// Makes a task, in a `URLSession` whose connections were made with what is in force now.
        private func begin(_ request: URLRequest, _ endpoint: HTTPSEndpoint) -> SessionExchange? {
            let basis = Basis(policies: trust.policies, identities: identities?.revision ?? 0)
            return state.withLock { state in
                guard !state.isFinished else { return nil }
                if let current = state.current, current.basis != basis {
                    current.session.finishTasksAndInvalidate()
                    state.current = nil
                }
                let current = state.current ?? make(basis)
                state.current = current
                let task = current.session.dataTask(with: request)
                let exchange = SessionExchange(task, limit: configuration.dataLimit) { [responder] in
                    let verdict = responder.verdict(on: endpoint.host.description, port: endpoint.port)
                    guard let verdict, !verdict.isTrusted else { return nil }
                    return .untrusted(host: endpoint.host.description, verdict: verdict)
                }
                current.delegate.add(exchange, task)
                return exchange
            }
        }

        private func make(_ basis: Basis) -> (basis: Basis, session: URLSession, delegate: SessionDelegate) {
            let delegate = SessionDelegate(responder)
            return (basis, URLSession(configuration: base, delegate: delegate, delegateQueue: nil), delegate)
        }
    }
#endif
