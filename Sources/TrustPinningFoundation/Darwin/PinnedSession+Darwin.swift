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

    /// A client for HTTPS that talks to trusted servers only: `URLSession` with a ``ChallengeResponder``, and the limits,
    /// redirects and errors of the session that `TrustPinningNIO` has for Linux.
    ///
    ///     let session = PinnedSession(trust: evaluator)
    ///     let (data, response) = try await session.data(from: url)
    ///
    /// Each host and port has a `URLSession` of its own, so that no request takes a connection that was judged for another
    /// host. It gives way to a new one, without connections, when the host's policy or client identity changes, or its pins
    /// expire. Cookies, stored credentials and caches are not used. When the session goes, so do they.
    ///
    /// The platform keeps TLS sessions in a cache of its process, which none of this empties: a new connection may resume one,
    /// and then asks nobody who the server is, or shows the client identity of before.
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

            private(set) var detours: [HTTPSEndpoint: HTTPSEndpoint] = [:]

            /// The defaults.
            public init() {}

            /// Connects to another place for a host. Its certificate still has to be the host's. The field `Host` names the
            /// host, but TLS does not: a place that serves several hosts cannot tell which one is meant.
            /// - Parameters:
            ///   - authority: the host and port of requests, as `host:port`.
            ///   - place: where to connect to, as `host:port`; it stands for one host only.
            /// - Throws: `.invalidRequest` when one of them is no host with a port, or the place is taken.
            public mutating func setDetour(from authority: String, to place: String) throws(PinnedSessionError) {
                guard let from = HTTPSEndpoint(authority: authority), let to = HTTPSEndpoint(authority: place) else {
                    throw .invalidRequest("'\(authority)' or '\(place)' is no host with a port")
                }
                guard !detours.contains(where: { $0.key != from && $0.value == to }) else {
                    throw .invalidRequest("'\(place)' stands for another host already")
                }
                detours[from] = to
            }
        }

        /// Where redirects may lead.
        public typealias Redirects = RedirectRule

        /// What the connections to an endpoint were made with.
        private struct Basis: Equatable {
            /// What they were judged by.
            var rule: PolicySet.Rule
            /// Whether its pins had expired then, after which another verdict is due.
            var hasExpired: Bool
            /// The client identity that may have been shown on them.
            var identityRevision: UInt64
        }

        /// What has the connections to an endpoint.
        private struct Line {
            let basis: Basis
            let session: URLSession
            let delegate: SessionDelegate
            /// When it was last used, in requests.
            var lastUse: UInt64 = 0
        }

        private struct State {
            var lines: [HTTPSEndpoint: Line] = [:]
            var count: UInt64 = 0
            var isFinished = false
        }

        /// The most endpoints whose connections are kept.
        package static let maximumEndpoints = 32

        private let trust: TrustEvaluator
        private let identities: ClientIdentities?
        private let configuration: Configuration
        let base: URLSessionConfiguration
        /// Fields for requests that lack them. A `URLSession` would add them to each, after redirects too.
        private let fields: [(name: String, value: String)]
        private let now: @Sendable () -> Date
        private let responder: ChallengeResponder
        private let state = Mutex(State())

        /// A session that talks to those whom `trust` trusts, and shows the identities of `identities` to the hosts they
        /// are for.
        /// - Parameter base: what else the `URLSession` needs, such as proxies; time-outs, connections, cookies,
        ///   credentials and caches are set by this. Its additional header fields are added to requests that lack
        ///   them, and treated like fields of those when redirects lead to another host.
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
            self.now = now
            responder = ChallengeResponder(
                trust: trust, identities: identities, detours: configuration.detours, now: now)
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
            fields = (own.httpAdditionalHeaders ?? [:]).compactMap { name, value in
                (name as? String).map { ($0, (value as? String) ?? String(describing: value)) }
            }
            own.httpAdditionalHeaders = nil
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
            try await data(for: request, limit: configuration.dataLimit)
        }

        /// - Parameter limit: the longest body that is taken, instead of the configuration's.
        func data(for request: URLRequest, limit: Int) async throws(PinnedSessionError) -> (Data, URLResponse) {
            guard request.httpBodyStream == nil else {
                throw .invalidRequest("a body of an InputStream is not supported")
            }
            let deadline = ContinuousClock.now + configuration.wholeTimeout
            var request = request
            for (name, value) in fields where request.value(forHTTPHeaderField: name) == nil {
                request.setValue(value, forHTTPHeaderField: name)
            }
            if let agent = configuration.userAgent, request.value(forHTTPHeaderField: "User-Agent") == nil {
                request.setValue(agent, forHTTPHeaderField: "User-Agent")
            }
            var count = 0
            while true {
                guard let url = request.url else { throw .invalidRequest("it has no URL") }
                let endpoint = try HTTPSEndpoint(url)
                let (data, response) = try await send(request, to: endpoint, limit: limit, until: deadline).get()
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

        /// Closes the connections that are not in use. Those that are end with their request.
        public func closeIdleConnections() {
            state.withLock { state in
                for endpoint in state.lines.keys { Self.close(endpoint, &state) }
            }
        }

        /// Closes the session: requests from now on fail, those that run come to their end.
        public func finish() {
            state.withLock { state in
                state.isFinished = true
                for line in state.lines.values { line.session.finishTasksAndInvalidate() }
                state.lines = [:]
            }
        }

        private func send(
            _ request: URLRequest, to endpoint: HTTPSEndpoint, limit: Int, until deadline: ContinuousClock.Instant
        ) async -> Result<(Data, HTTPURLResponse), PinnedSessionError> {
            guard let exchange = begin(request, endpoint, limit: limit) else { return .failure(.sessionClosed) }
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

        /// Makes a task, in a `URLSession` that talks to nobody else, and whose connections were made with what is in force
        /// now.
        private func begin(_ request: URLRequest, _ endpoint: HTTPSEndpoint, limit: Int) -> SessionExchange? {
            state.withLock { state in
                guard !state.isFinished else { return nil }
                let line = line(to: endpoint, &state)
                let task = line.session.dataTask(with: detoured(request, endpoint))
                let start = ContinuousClock.now
                let exchange = SessionExchange(task, limit: limit) { [responder] in
                    let verdict = responder.verdict(
                        on: endpoint.host.description, port: endpoint.port, since: start)
                    guard let verdict, !verdict.isTrusted else { return nil }
                    return .untrusted(host: endpoint.host.description, verdict: verdict)
                }
                line.delegate.add(exchange, task)
                return exchange
            }
        }

        /// The request to where its host is.
        private func detoured(_ request: URLRequest, _ endpoint: HTTPSEndpoint) -> URLRequest {
            guard let place = configuration.detours[endpoint], let url = request.url,
                var parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
            else { return request }
            parts.encodedHost = place.host.description.contains(":") ? "[\(place.host)]" : place.host.description
            parts.port = place.port
            var request = request
            request.url = parts.url ?? url
            request.setValue(endpoint.authority, forHTTPHeaderField: "Host")
            return request
        }

        private func line(to endpoint: HTTPSEndpoint, _ state: inout State) -> Line {
            let configuration = trust.configuration
            let rule = configuration.policies.rule(for: endpoint.host)
            let basis = Basis(
                rule: rule, hasExpired: trust.hasExpired(rule, at: now()),
                identityRevision: identities?.revision(for: endpoint.host, in: configuration.selected) ?? 0)
            if let line = state.lines[endpoint], line.basis != basis { Self.close(endpoint, &state) }
            var line = state.lines[endpoint] ?? make(basis)
            state.count += 1
            line.lastUse = state.count
            state.lines[endpoint] = line
            if state.lines.count > Self.maximumEndpoints,
                let oldest = state.lines.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                Self.close(oldest.key, &state)
            }
            return line
        }

        private func make(_ basis: Basis) -> Line {
            let delegate = SessionDelegate(responder)
            let session = URLSession(configuration: base, delegate: delegate, delegateQueue: nil)
            return Line(basis: basis, session: session, delegate: delegate)
        }

        /// Keeps no connection; requests that run come to their end.
        private static func close(_ endpoint: HTTPSEndpoint, _ state: inout State) {
            state.lines.removeValue(forKey: endpoint)?.session.finishTasksAndInvalidate()
        }
    }
#endif
