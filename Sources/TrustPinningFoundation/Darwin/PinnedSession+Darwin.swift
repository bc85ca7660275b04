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

    /// An HTTPS client that connects only to trusted servers: `URLSession` with a ``ChallengeResponder``, and with the
    /// limits, redirects and errors of the session that `TrustPinningNIO` provides on Linux.
    ///
    ///     let session = PinnedSession(trust: evaluator)
    ///     let (data, response) = try await session.data(from: url)
    ///
    /// Each host and port has a separate `URLSession`, so that no request uses a connection that was verified for
    /// another host. If the host's policy or client identity changes, or its pins expire, a new `URLSession` without
    /// connections replaces it. Cookies, stored credentials and caches are not used. Releasing the session closes its
    /// connections.
    ///
    /// The platform caches TLS sessions for the process, and this type cannot clear that cache: a new connection may
    /// resume a TLS session without another server challenge, or with the earlier client identity.
    public final class PinnedSession: Sendable {
        /// The limits and options of a session.
        public struct Configuration: Sendable {
            /// The maximum time without any bytes sent or received, including while connecting.
            public var idleTimeout: Duration = .seconds(60)
            /// The maximum time for a request with all its redirects.
            public var wholeTimeout: Duration = .seconds(300)
            /// The maximum number of connections to one host.
            public var connectionsPerHost = 6
            /// The maximum length of a response body, in bytes, after content decoding.
            public var dataLimit = 16 * 1024 * 1024
            /// The rule for redirects.
            public var redirects = Redirects.samePolicy(limit: 5)
            /// The `User-Agent` of requests without this field.
            public var userAgent: String? = "culvert"

            private(set) var detours: [HTTPSEndpoint: HTTPSEndpoint] = [:]

            /// Creates the default configuration.
            public init() {}

            /// Connects to another address for a host. The server's certificate must still be valid for the host. The
            /// field `Host` contains the host, but the TLS server name does not, so a server with several hosts at this
            /// address cannot distinguish them.
            /// - Parameters:
            ///   - authority: The host and port of requests, as `host:port`.
            ///   - place: The address to connect to, as `host:port`; for one host only.
            /// - Throws: `.invalidRequest` if an argument is not valid, or the address is already used for another
            ///   host.
            public mutating func setDetour(from authority: String, to place: String) throws(PinnedSessionError) {
                guard let from = HTTPSEndpoint(authority: authority), let to = HTTPSEndpoint(authority: place) else {
                    throw .invalidRequest("'\(authority)' and '\(place)' must have the form host:port")
                }
                guard !detours.contains(where: { $0.key != from && $0.value == to }) else {
                    throw .invalidRequest("'\(place)' is already used for another host")
                }
                detours[from] = to
            }
        }

        /// The rule for redirects.
        public typealias Redirects = RedirectRule

        /// The conditions under which the connections to an endpoint were made.
        private struct Basis: Equatable {
            /// The rule that verified the server.
            var rule: PolicySet.Rule
            /// Whether the rule's pins had expired, which changes the decision.
            var hasExpired: Bool
            /// The revision of the client identity that may have been sent.
            var identityRevision: UInt64
        }

        /// The `URLSession` with the connections to an endpoint.
        private struct Line {
            let basis: Basis
            let session: URLSession
            let delegate: SessionDelegate
            /// The number of the last request that used it.
            var lastUse: UInt64 = 0
        }

        private struct State {
            var lines: [HTTPSEndpoint: Line] = [:]
            var count: UInt64 = 0
            var isFinished = false
        }

        /// The maximum number of endpoints with kept connections.
        package static let maximumEndpoints = 32

        private let trust: TrustEvaluator
        private let identities: ClientIdentities?
        private let configuration: Configuration
        let base: URLSessionConfiguration
        /// The header fields to add to requests that lack them. A `URLSession` would add them to each request, even
        /// after redirects.
        private let fields: [(name: String, value: String)]
        private let now: @Sendable () -> Date
        private let responder: ChallengeResponder
        private let state = Mutex(State())

        /// Creates a session that evaluates servers with `trust`, and sends client identities of `identities` to their
        /// hosts.
        /// - Parameter base: Further settings of the `URLSession`, such as proxies. Its time-outs, connection limits,
        ///   cookies, credentials and caches are replaced. Its additional header fields are added to requests that lack
        ///   them, and after a redirect to another host they are handled like the request's own fields.
        public convenience init(
            trust: TrustEvaluator, identities: ClientIdentities? = nil, configuration: Configuration = Configuration(),
            base: URLSessionConfiguration = .ephemeral
        ) {
            self.init(trust: trust, identities: identities, configuration: configuration, base: base, now: { Date() })
        }

        /// - Parameter now: The time at which certificates and pins must be valid.
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

        /// Fetches the resource at `url`.
        /// - Throws: An error if there is no response. A response with any status is not an error.
        public func data(from url: URL) async throws(PinnedSessionError) -> (Data, URLResponse) {
            try await data(for: URLRequest(url: url))
        }

        /// Sends a request and returns the complete response: an `HTTPURLResponse`.
        /// - Throws: An error if there is no response. A response with any status is not an error.
        public func data(for request: URLRequest) async throws(PinnedSessionError) -> (Data, URLResponse) {
            try await data(for: request, limit: configuration.dataLimit)
        }

        /// - Parameter limit: The maximum length of the response body, instead of the configuration's.
        func data(for request: URLRequest, limit: Int) async throws(PinnedSessionError) -> (Data, URLResponse) {
            guard request.httpBodyStream == nil else {
                throw .invalidRequest("a body from an InputStream is not supported")
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
                guard let url = request.url else { throw .invalidRequest("the request has no URL") }
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

        /// Closes idle connections. Active connections close when their request ends.
        public func closeIdleConnections() {
            state.withLock { state in
                for endpoint in state.lines.keys { Self.close(endpoint, &state) }
            }
        }

        /// Closes the session: new requests fail, and active requests continue to their end.
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

        /// Creates a task in the endpoint's `URLSession`, whose connections match the current policy and identity.
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

        /// Replaces the host of a request by the address of its detour, if it has one.
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

        /// Removes the endpoint's `URLSession`; active requests continue to their end.
        private static func close(_ endpoint: HTTPSEndpoint, _ state: inout State) {
            state.lines.removeValue(forKey: endpoint)?.session.finishTasksAndInvalidate()
        }
    }
#endif
