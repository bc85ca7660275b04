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

/// An HTTPS client that connects only to trusted servers, for platforms whose `URLSession` has no server challenges.
///
///     let session = PinnedSession(trust: evaluator)
///     let (data, response) = try await session.data(from: url)
///
/// It uses HTTP/1.1 and reuses connections. No part of a request is sent before the server is trusted.
public final class PinnedSession: Sendable {
    /// The limits and options of a session.
    public struct Configuration: Sendable {
        /// The maximum time to connect: name lookup, TCP and TLS.
        public var connectTimeout: Duration = .seconds(15)
        /// The maximum time without any bytes sent or received during an exchange.
        public var idleTimeout: Duration = .seconds(60)
        /// The maximum time for a request with all its redirects; a request can have its own.
        public var wholeTimeout: Duration = .seconds(300)
        /// The time for which an idle connection is kept.
        public var keepAlive: Duration = .seconds(30)
        /// The maximum number of connections to one host and port.
        public var connectionsPerHost = 6
        /// The maximum length of a response body for `data(for:)`, in bytes.
        public var dataLimit = 16 * 1024 * 1024
        /// The maximum length of a response body for `bytes(for:)`, in bytes.
        public var streamLimit = Int.max
        /// The rule for redirects.
        public var redirects = Redirects.samePolicy(limit: 5)
        /// The `User-Agent` of requests without this field.
        public var userAgent: String? = "culvert"

        /// The mark of the sockets on Linux. If the process may not set it, the sockets have no mark.
        package var socketMark: UInt32?

        private(set) var detours: [Endpoint: Endpoint] = [:]

        /// Creates the default configuration.
        public init() {}

        /// Connects to another address for a host. The server's certificate must still be valid for the host.
        /// - Parameters:
        ///   - authority: The host and port of requests, as `host:port`.
        ///   - place: The address to connect to, as `host:port`.
        /// - Throws: `.invalidRequest` if an argument is not a host with a port.
        public mutating func setDetour(
            from authority: String, to place: String
        ) throws(PinnedSessionError) {
            guard let from = Endpoint(authority: authority), let to = Endpoint(authority: place) else {
                throw .invalidRequest("'\(authority)' and '\(place)' must have the form host:port")
            }
            detours[from] = to
        }
    }

    /// The rule for redirects.
    public typealias Redirects = RedirectRule

    private let configuration: Configuration
    private let tls: PinnedTLS
    private let pool: ConnectionPool

    /// Creates a session that verifies servers with `tls`.
    /// - Parameters:
    ///   - tls: The TLS settings with the verifier of servers.
    ///   - configuration: The limits and options.
    ///   - group: The event loops of the connections; by default, those of the process.
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

    /// Creates a session that evaluates servers with `trust`, and sends client identities of `identities` to their
    /// hosts. On Apple's platforms, the session of `TrustPinningFoundation` has the same initialiser.
    public convenience init(
        trust: TrustEvaluator, identities: ClientIdentities? = nil, configuration: Configuration = Configuration()
    ) {
        self.init(tls: PinnedTLS(checkedLater: trust, identities: identities), configuration: configuration)
    }

    deinit { pool.close() }

    /// Fetches the resource at `url`.
    /// - Throws: An error if there is no response. A response with any status is not an error.
    @_disfavoredOverload
    public func data(from url: URL) async throws(PinnedSessionError) -> (Data, PinnedResponse) {
        // This method is disfavoured: if TrustPinningFoundation is imported, its method with the same name is used,
        // which returns a URLResponse, as on Apple's platforms.
        try await data(for: PinnedRequest(url: url))
    }

    /// Sends a request and returns the complete response.
    /// - Throws: An error if there is no response. A response with any status is not an error.
    public func data(for request: PinnedRequest) async throws(PinnedSessionError) -> (Data, PinnedResponse) {
        let (body, response) = try await follow(request, limit: configuration.dataLimit)
        let bytes = try await body.collect(upTo: configuration.dataLimit)
        return (Data(bytes.readableBytesView), response)
    }

    /// Sends a request and returns the head and the body as a stream.
    /// - Throws: An error if there is no response. A response with any status is not an error.
    public func bytes(for request: PinnedRequest) async throws(PinnedSessionError) -> (PinnedBody, PinnedResponse) {
        try await follow(request, limit: configuration.streamLimit)
    }

    /// Fetches the resource at `url`, with its body as a stream.
    /// - Throws: An error if there is no response. A response with any status is not an error.
    public func bytes(from url: URL) async throws(PinnedSessionError) -> (PinnedBody, PinnedResponse) {
        try await bytes(for: PinnedRequest(url: url))
    }

    /// Closes idle connections. Active connections are not closed, and are kept after their request.
    public func closeIdleConnections() { pool.closeIdle() }

    /// Closes the session: new requests fail, and active requests continue to their end.
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

    /// Reads a short body to its end, so that the connection can be reused. A longer one closes the connection.
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
            // The server has closed an idle connection: retry once, on a new connection, if that is safe.
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
    /// Converts a duration, limited to 0 to 100 years.
    init(_ duration: Duration) {
        let seconds = min(max(duration.components.seconds, 0), 100 * 365 * 86_400)
        self = .nanoseconds(seconds * 1_000_000_000 + max(duration.components.attoseconds, 0) / 1_000_000_000)
    }
}
