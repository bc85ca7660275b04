// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NIOCore
import NIOHTTP1
import NIOPosix
public import TrustPinning

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A client for HTTPS that talks to trusted servers only, for where `URLSession` cannot ask who the server is.
///
///     let session = PinnedSession(trust: evaluator)
///     let (data, response) = try await session.data(from: url)
///
/// HTTP/1.1. Connections are kept and used again. Nothing of a request leaves before the server was found trusted.
public final class PinnedSession: Sendable {
    /// Limits and habits of a session.
    public struct Configuration: Sendable {
        /// The longest that connecting may take: name lookup, TCP and TLS.
        public var connectTimeout: Duration = .seconds(15)
        /// The longest that nothing may be sent or received while an answer is awaited or read.
        public var idleTimeout: Duration = .seconds(60)
        /// The longest that a request may take with all its redirects; a request can have its own.
        public var wholeTimeout: Duration = .seconds(300)
        /// How long a connection is kept without work.
        public var keepAlive: Duration = .seconds(30)
        /// The most connections to one host and port.
        public var connectionsPerHost = 6
        /// The longest body that `data(for:)` takes, in bytes.
        public var dataLimit = 16 * 1024 * 1024
        /// The longest body that `bytes(for:)` takes, in bytes.
        public var streamLimit = Int.max
        /// Where redirects may lead.
        public var redirects = Redirects.samePolicy(limit: 5)
        /// Sent as `User-Agent` where a request has none.
        public var userAgent: String? = "culvert"

        /// The mark of the connections' sockets on Linux. Where the process may not set it, they have none.
        package var socketMark: UInt32?

        private(set) var detours: [Endpoint: Endpoint] = [:]

        /// The defaults.
        public init() {}

        /// Connects to another place for a host. Its certificate still has to be the host's.
        /// - Parameters:
        ///   - authority: the host and port of requests, as `host:port`.
        ///   - place: where to connect to, as `host:port`.
        /// - Throws: `.invalidRequest` when one of them is no host with a port.
        public mutating func setDetour(
            from authority: String, to place: String
        ) throws(PinnedSessionError) {
            guard let from = Endpoint(authority: authority), let to = Endpoint(authority: place) else {
                throw .invalidRequest("'\(authority)' or '\(place)' is no host with a port")
            }
            detours[from] = to
        }
    }

    /// Where redirects may lead.
    public typealias Redirects = RedirectRule

    private let configuration: Configuration
    private let tls: PinnedTLS
    private let pool: ConnectionPool

    /// A session whose connections are judged by `tls`.
    /// - Parameters:
    ///   - tls: which servers are trusted.
    ///   - configuration: how connections are made and kept.
    ///   - group: the event loops that the connections live on; those of the process by default.
    public init(
        tls: PinnedTLS, configuration: Configuration = Configuration(),
        group: (any EventLoopGroup)? = nil
    ) {
        self.tls = tls
        self.configuration = configuration
        let connector = Connector(
            tls: tls, group: group ?? MultiThreadedEventLoopGroup.singleton,
            connectTimeout: TimeAmount(configuration.connectTimeout),
            keepAlive: TimeAmount(configuration.keepAlive), detours: configuration.detours,
            socketMark: configuration.socketMark)
        pool = ConnectionPool(connector: connector, limit: configuration.connectionsPerHost)
    }

    /// A session that talks to those whom `trust` trusts, and shows the identities of `identities` to the hosts they are
    /// for. On Apple's platforms the session of `TrustPinningFoundation` is made in the same way.
    public convenience init(
        trust: TrustEvaluator, identities: ClientIdentities? = nil, configuration: Configuration = Configuration()
    ) {
        self.init(tls: PinnedTLS(checkedLater: trust, identities: identities), configuration: configuration)
    }

    deinit { pool.close() }

    /// Gets what is at `url`.
    /// - Throws: an error that says what failed; answers of any status are none.
    @_disfavoredOverload
    public func data(from url: URL) async throws(PinnedSessionError) -> (Data, PinnedResponse) {
        // Where TrustPinningFoundation is imported, its method of this name counts: the answer is a URLResponse there, as on
        // Apple's platforms.
        try await data(for: PinnedRequest(url: url))
    }

    /// Sends a request and gives its answer as a whole.
    /// - Throws: an error that says what failed; answers of any status are none.
    public func data(for request: PinnedRequest) async throws(PinnedSessionError) -> (Data, PinnedResponse) {
        let (body, response) = try await follow(request, limit: configuration.dataLimit)
        let bytes = try await body.collect(upTo: configuration.dataLimit)
        return (Data(bytes.readableBytesView), response)
    }

    /// Sends a request and gives its answer as it comes.
    /// - Throws: an error that says what failed; answers of any status are none.
    public func bytes(for request: PinnedRequest) async throws(PinnedSessionError) -> (PinnedBody, PinnedResponse) {
        try await follow(request, limit: configuration.streamLimit)
    }

    /// Gets what is at `url` as it comes.
    /// - Throws: an error that says what failed; answers of any status are none.
    public func bytes(from url: URL) async throws(PinnedSessionError) -> (PinnedBody, PinnedResponse) {
        try await bytes(for: PinnedRequest(url: url))
    }

    /// Closes the connections that are not in use. Those that are end with their request.
    public func closeIdleConnections() { pool.closeIdle() }

    /// Closes the session: requests from now on fail, those that run come to their end.
    public func finish() { pool.close() }

    /// The numbers of connections and of waiting requests, for tests.
    var connectionFigures: ConnectionPool.Figures { pool.figures }

    // MARK: - Redirects

    private func follow(
        _ original: PinnedRequest, limit: Int
    ) async throws(PinnedSessionError) -> (PinnedBody, PinnedResponse) {
        let deadline = NIODeadline.now() + TimeAmount(original.timeout ?? configuration.wholeTimeout)
        var request = original
        var count = 0
        while true {
            let answer = try await send(request, deadline: deadline, limit: limit)
            let response = PinnedResponse(url: request.url, status: answer.head.status, headers: answer.head.headers)
            guard
                let next = try request.redirected(
                    by: response, Redirection(configuration.redirects, policies: tls.policies))
            else {
                return (answer.body, response)
            }
            count += 1
            guard count <= next.limit else { throw .tooManyRedirects(limit: next.limit) }
            try await discard(answer.body)
            request = next.request
        }
    }

    /// Reads a short body to its end, so that the connection stays; the reader's end closes it otherwise.
    private func discard(_ body: PinnedBody) async throws(PinnedSessionError) {
        var iterator = body.makeAsyncIterator()
        var count = 0
        while count < 64 * 1024, let chunk = try await iterator.next() { count += chunk.readableBytes }
    }

    // MARK: - Connections

    private func send(
        _ request: PinnedRequest, deadline: NIODeadline, limit: Int
    ) async throws(PinnedSessionError) -> ExchangeAnswer {
        let endpoint = try Endpoint(request.url)
        var head = try RequestHead.make(request, to: endpoint)
        if let agent = configuration.userAgent, head.headers["user-agent"].isEmpty {
            head.headers.add(name: "User-Agent", value: agent)
        }
        let plan = ExchangePlan(
            head: head, body: request.body,
            continueTimeout: RequestHead.waitsForContinue(request) ? request.continueTimeout : nil,
            idleTimeout: TimeAmount(configuration.idleTimeout), deadline: deadline, bodyLimit: limit)
        let lease = try await pool.lease(endpoint, deadline: deadline).get()
        switch await lease.connection.perform(plan) {
        case .success(let answer): return answer
        case .failure(let failure):
            // The server closed an idle connection: retry once, on a new one, if that is safe.
            let mayRepeat = !failure.requestLeft || RequestHead.isIdempotent(request.method)
            guard lease.isReused, failure.isStale, request.body.isReplayable, mayRepeat else { throw failure.error }
        }
        let last = try await pool.lease(endpoint, deadline: deadline, onlyNew: true).get()
        switch await last.connection.perform(plan) {
        case .success(let answer): return answer
        case .failure(let failure): throw failure.error
        }
    }
}

extension TimeAmount {
    /// The same time, at most 100 years.
    init(_ duration: Duration) {
        let seconds = min(max(duration.components.seconds, 0), 100 * 365 * 86_400)
        self = .nanoseconds(seconds * 1_000_000_000 + max(duration.components.attoseconds, 0) / 1_000_000_000)
    }
}
