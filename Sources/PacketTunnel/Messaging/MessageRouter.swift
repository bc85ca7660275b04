// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import Synchronization
import TunnelSystem

/// Answers each message with the handler that is registered for its name and version.
///
/// Every request gets exactly one answer: the reply, or an error with the reason. Any thread may register handlers and
/// pass in requests. Handlers run concurrently, each in its own task.
public final class MessageRouter: Sendable {
    /// The limits of a router.
    public struct Limits: Sendable {
        /// The largest request that is read and the largest reply that is sent.
        public var maximumByteCount: Int
        /// The largest reply that is sent, if it differs from the largest request.
        package var maximumReplyByteCount: Int?
        /// The time limit of a handler; `nil` for no limit. A slower handler is cancelled and its reply dropped.
        public var handlerTimeout: Duration?
        /// The largest number of concurrent handlers. It includes those that continue after their time limit. Further
        /// requests get `busy`.
        public var maximumRequests: Int
        /// The largest number of concurrent subscriptions.
        public var maximumSubscriptions: Int

        /// Limits; by default 1 MiB, 30 s, 64 requests and 32 subscriptions.
        public init(
            maximumByteCount: Int = MessageContainer.defaultMaximumByteCount,
            handlerTimeout: Duration? = .seconds(30), maximumRequests: Int = 64, maximumSubscriptions: Int = 32
        ) {
            self.maximumByteCount = maximumByteCount
            self.handlerTimeout = handlerTimeout
            self.maximumRequests = maximumRequests
            self.maximumSubscriptions = maximumSubscriptions
        }
    }

    /// A name and version with a handler.
    public struct Registration: Hashable, Sendable {
        /// The name.
        public let name: String
        /// The version.
        public let version: UInt16
    }

    typealias RequestHandler = @Sendable ([UInt8]) async throws(MessageError) -> [UInt8]
    typealias SubscriptionHandler = @Sendable ([UInt8], @escaping FrameSink) async throws(MessageError) -> Void
    typealias FrameSink = @Sendable ([UInt8]) async throws -> Void

    enum Handler {
        case request(RequestHandler)
        case subscription(SubscriptionHandler)
    }

    private struct State {
        var handlers: [String: [UInt16: Handler]] = [:]
        var otherwise: RequestHandler?
        var isClosed = false
        var logger: Logger
    }

    let limits: Limits
    let clock: any Clock<Duration>
    /// The subscriptions of clients that fetch each element.
    let fetched = FetchedSubscriptions()
    private let state: Mutex<State>
    private let requests: Admission
    private let subscriptions: Admission

    /// Creates a router without handlers.
    /// - Parameters:
    ///   - limits: The limits for clients.
    ///   - clock: The clock of the handlers' time limit.
    ///   - logger: Logs answers and refusals, without the contents of messages.
    public init(
        limits: Limits = Limits(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel.messages") { _ in SwiftLogNoOpLogHandler() }
    ) {
        state = Mutex(State(logger: logger))
        self.limits = limits
        self.clock = clock
        requests = Admission(limit: limits.maximumRequests)
        subscriptions = Admission(limit: limits.maximumSubscriptions)
    }

    // MARK: - Handlers

    /// Answers messages of this type with `handler`, and replaces an earlier handler; `nil` removes it. Running
    /// handlers continue.
    ///
    /// If the name of the message type is not valid, the handler is never called: the sender gets
    /// ``MessageError/unencodableMessage(_:)``.
    public func on<Message: TunnelMessage>(
        _ type: Message.Type, _ handler: (@Sendable (Message) async throws -> Message.Reply)?
    ) {
        set(Message.name, Message.version, handler.map { Handler.request(Self.erase($0)) })
    }

    /// Answers subscriptions of this type with the elements that `handler` sends to the sink until it returns or
    /// throws. Replaces an earlier handler; `nil` removes it. Present subscriptions continue.
    ///
    /// The handler's task is cancelled when the subscriber closes.
    public func on<Subscription: TunnelSubscription>(
        _ type: Subscription.Type,
        _ handler: (@Sendable (Subscription, SubscriptionSink<Subscription.Element>) async throws -> Void)?
    ) {
        set(Subscription.name, Subscription.version, handler.map { Handler.subscription(erase($0)) })
    }

    /// Passes bytes that are not a message, and messages whose name has no handler, to `handler`; `nil` refuses them.
    /// The router sends the answer of `handler` unchanged, but replaces `nil` and errors by a ``MessageError``.
    public func otherwise(_ handler: (@Sendable ([UInt8]) async throws -> [UInt8]?)?) {
        let pass = handler.map { Self.erase($0) }
        state.withLock { state in if !state.isClosed { state.otherwise = pass } }
    }

    /// Whether messages of this name have a handler, in any version.
    func hasHandler(for name: String) -> Bool { state.withLock { $0.handlers[name] != nil } }

    /// Whether the router has no handler. A closed router is not unused, because it still answers.
    var isUnused: Bool { state.withLock { $0.handlers.isEmpty && $0.otherwise == nil && !$0.isClosed } }

    /// The registered messages, in order of name and version.
    public var registrations: [Registration] {
        state.withLock(\.handlers)
            .flatMap { name, versions in versions.keys.map { Registration(name: name, version: $0) } }
            .sorted { ($0.name, $0.version) < ($1.name, $1.version) }
    }

    /// Answers every later request with ``MessageError/closed``, and releases the handlers.
    public func close() {
        state.withLock { state in
            state.isClosed = true
            (state.handlers, state.otherwise) = ([:], nil)
        }
        fetched.close()
    }

    /// Logs answers and refusals, without the contents of messages.
    public var logger: Logger {
        get { state.withLock { $0.logger } }
        set { state.withLock { $0.logger = newValue } }
    }

    // MARK: - Answering

    /// Answers a request. Every byte sequence gets exactly one answer, even if it is not a request.
    ///
    /// This also works for subscriptions: each element is then the answer to a separate request. A ``MessageClient``
    /// makes these requests if its channel has only one answer per request.
    ///
    /// If the calling task is cancelled, the handler is cancelled too, and the answer is immediate.
    public func respond(to bytes: [UInt8]) async -> [UInt8] { await answer(bytes) { begin($0) } }

    /// Answers a request or a subscription with calls of `send`, which must return when there is room for more.
    ///
    /// It returns when everything was sent, when `send` throws, or when the calling task is cancelled.
    public func serve(_ bytes: [UInt8], send: @escaping @Sendable ([UInt8]) async throws -> Void) async {
        let answer = await answer(bytes) { await serve(subscription: $0, send: send) }
        // The subscriber no longer accepts answers.
        do { try await send(answer) } catch {}
    }

    private func answer(
        _ bytes: [UInt8], subscription: (MessageContainer) async -> [UInt8]
    ) async -> [UInt8] {
        let request: MessageContainer
        do throws(MessageError) { request = try decode(bytes) } catch {
            guard case .undecodableMessage = error, let pass = fallback() else { return refuse(error, nil) }
            return await forward(bytes, to: pass, nil)
        }
        if request.kind.isAnswered, let pass = fallback(for: request.name) {
            return await forward(bytes, to: pass, request)
        }
        switch request.kind {
        case .subscribe: return await subscription(request)
        case .take: return await take(request)
        case .leave: return leave(request)
        default: return await respond(to: request)
        }
    }

    private func respond(to request: MessageContainer) async -> [UInt8] {
        do throws(MessageError) {
            guard request.kind == .request else { throw .undecodableMessage("it is not a request") }
            guard case .request(let handler) = try handler(for: request) else {
                throw .noHandler(name: request.name)
            }
            let reply = try encode(.reply, request, try await run(handler, request.payload))
            logger.debug("'\(request.name)' was answered with \(reply.count) bytes")
            return reply
        } catch {
            return refuse(error, request)
        }
    }

    /// Runs a handler within the limits.
    private func run(_ handler: @escaping RequestHandler, _ bytes: [UInt8]) async throws(MessageError) -> [UInt8] {
        guard let slot = requests.enter() else { throw .busy }
        let outcome = await withDeadline(limits.handlerTimeout, clock: clock) {
            () async -> Result<[UInt8], MessageError> in
            // Keep the slot until the handler has ended, even after the deadline.
            defer { withExtendedLifetime(slot) {} }
            do throws(MessageError) { return .success(try await handler(bytes)) } catch { return .failure(error) }
        }
        return try outcome.get(onTimeout: .handlerTimeout)
    }

    /// Returns the handler of ``otherwise(_:)``, or `nil` if `name` has a handler in some version.
    private func fallback(for name: String? = nil) -> RequestHandler? {
        state.withLock { state in
            if let name, state.handlers[name] != nil { return nil }
            return state.otherwise
        }
    }

    private func forward(
        _ bytes: [UInt8], to handler: @escaping RequestHandler, _ request: MessageContainer?
    ) async -> [UInt8] {
        do throws(MessageError) {
            let answer = try await run(handler, bytes)
            let limit = limits.maximumReplyByteCount ?? limits.maximumByteCount
            guard answer.count <= limit else { throw .tooLarge(.reply, byteCount: answer.count, limit: limit) }
            return answer
        } catch {
            return refuse(error, request)
        }
    }

    /// Logs an error and encodes it as the answer.
    func refuse(_ error: MessageError, _ request: MessageContainer?) -> [UInt8] {
        let what = request.map { "'\($0.name)', version \($0.version)," } ?? "a message"
        logger.log(level: error == .closed || error == .cancelled ? .debug : .warning, "\(what) has no reply: \(error)")
        return failure(error, of: request)
    }

    /// Runs a subscription; returns its last frame.
    func serve(subscription request: MessageContainer, send: @escaping FrameSink) async -> [UInt8] {
        do throws(MessageError) {
            guard case .subscription(let handler) = try handler(for: request) else {
                throw .noHandler(name: request.name)
            }
            guard let slot = subscriptions.enter() else { throw .busy }
            defer { withExtendedLifetime(slot) {} }
            logger.debug("'\(request.name)' is subscribed to")
            try await handler(request.payload) { [self] payload in try await send(encode(.element, request, payload)) }
            logger.debug("the subscription to '\(request.name)' has ended")
            return try encode(.end, request, [])
        } catch {
            return refuse(error, request)
        }
    }

    private func handler(for request: MessageContainer) throws(MessageError) -> Handler {
        let (versions, isClosed) = state.withLock { ($0.handlers[request.name], $0.isClosed) }
        guard !isClosed else { throw .closed }
        guard let versions, !versions.isEmpty else { throw .noHandler(name: request.name) }
        guard let handler = versions[request.version] else {
            throw .unsupportedVersion(
                name: request.name, version: request.version, supported: versions.keys.sorted())
        }
        return handler
    }

    // MARK: - Containers

    private func decode(_ bytes: [UInt8]) throws(MessageError) -> MessageContainer {
        do throws(MessageContainerError) {
            return try MessageContainer(decoding: bytes, limit: limits.maximumByteCount)
        } catch {
            guard case .tooLarge(let byteCount, let limit) = error else { throw .undecodableMessage("\(error)") }
            throw .tooLarge(.request, byteCount: byteCount, limit: limit)
        }
    }

    func encode(
        _ kind: MessageContainer.Kind, _ request: MessageContainer, _ payload: [UInt8]
    ) throws(MessageError) -> [UInt8] {
        let container = MessageContainer(
            kind: kind, name: request.name, version: request.version, correlation: request.correlation,
            payload: payload)
        do throws(MessageContainerError) {
            return try container.encoded(limit: limits.maximumReplyByteCount ?? limits.maximumByteCount)
        } catch {
            guard case .tooLarge(let byteCount, let limit) = error else { throw .channelFailed("\(error)") }
            throw .tooLarge(.reply, byteCount: byteCount, limit: limit)
        }
    }

    /// An error as the answer to `request`, or to bytes that are not a request.
    func failure(_ error: MessageError, of request: MessageContainer?) -> [UInt8] {
        MessageRouter.failure(error, of: request)
    }

    /// Returns the answer to a request if no provider runs, or `nil` for bytes that are not a request.
    package static func refusal(_ error: TunnelError, of bytes: [UInt8]) -> [UInt8]? {
        do throws(MessageContainerError) {
            let request = try MessageContainer(decoding: bytes, limit: .max)
            return request.kind.isAnswered ? failure(MessageError(error), of: request) : nil
        } catch {
            return nil
        }
    }

    static func failure(_ error: MessageError, of request: MessageContainer?) -> [UInt8] {
        let payload: [UInt8]
        do { payload = try MessageCoding.encode(error) } catch {
            payload = Array(#"{"code":"failed"}"#.utf8)
        }
        let container = MessageContainer(
            kind: .error, name: request?.name ?? "culvert.error", version: request?.version ?? 1,
            correlation: request?.correlation ?? 0, payload: payload)
        do throws(MessageContainerError) { return try container.encoded(limit: .max) } catch { return [] }
    }

    // MARK: - Type erasure

    private static func erase<Message: TunnelMessage>(
        _ handler: @escaping @Sendable (Message) async throws -> Message.Reply
    ) -> RequestHandler {
        { payload throws(MessageError) in
            let message = try decode(Message.self, payload)
            do {
                return try MessageCoding.encode(try await handler(message))
            } catch {
                throw .handlerFailed(HandlerFailure(of: error))
            }
        }
    }

    private static func erase(_ handler: @escaping @Sendable ([UInt8]) async throws -> [UInt8]?) -> RequestHandler {
        { bytes throws(MessageError) in
            let answer: [UInt8]?
            do {
                answer = try await handler(bytes)
            } catch {
                throw MessageError(ofHandler: error)
            }
            guard let answer else { throw .noReply }
            return answer
        }
    }

    private func erase<Subscription: TunnelSubscription>(
        _ handler: @escaping @Sendable (Subscription, SubscriptionSink<Subscription.Element>) async throws -> Void
    ) -> SubscriptionHandler {
        { payload, send throws(MessageError) in
            let subscription = try Self.decode(Subscription.self, payload)
            do {
                try await handler(subscription, SubscriptionSink(write: send))
            } catch let error as MessageError {
                throw error
            } catch {
                throw .handlerFailed(HandlerFailure(of: error))
            }
        }
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws(MessageError) -> Value {
        do {
            return try MessageCoding.decode(type, from: bytes)
        } catch let error as TunnelError {
            throw MessageError(ofHandler: error)
        } catch {
            throw .undecodableMessage(DecodingError.summary(of: error))
        }
    }

    private func set(_ name: String, _ version: UInt16, _ handler: Handler?) {
        guard MessageContainer.isValidName(name) else { return }
        state.withLock { state in
            guard !state.isClosed else { return }
            state.handlers[name, default: [:]][version] = handler
            if state.handlers[name]?.isEmpty == true { state.handlers[name] = nil }
        }
    }
}

/// The output of a subscription's handler.
public struct SubscriptionSink<Element: Codable & Sendable>: Sendable {
    let write: @Sendable ([UInt8]) async throws -> Void

    /// Sends one element; returns when there is room for the next.
    /// - Throws: `.closed` if the subscriber has closed, `.tooLarge` if the element exceeds the limit.
    public func send(_ element: Element) async throws(MessageError) {
        let payload: [UInt8]
        do { payload = try MessageCoding.encode(element) } catch {
            throw .unencodableMessage("an element does not encode as JSON")
        }
        do { try await write(payload) } catch { throw MessageError(ofChannel: error) }
    }

    /// Sends the elements of a sequence, until it ends or the subscriber closes.
    public func send<Elements: AsyncSequence>(contentsOf elements: Elements) async throws
    where Elements.Element == Element {
        for try await element in elements { try await send(element) }
    }
}

/// Limits how many operations run at the same time.
final class Admission: Sendable {
    private let limit: Int
    private let count = Mutex(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// Occupies a slot and returns it, or `nil` if all are occupied. Releasing the last reference frees the slot.
    func enter() -> Slot? {
        let isAdmitted = count.withLock { count in
            guard count < limit else { return false }
            count += 1
            return true
        }
        return isAdmitted ? Slot(self) : nil
    }

    final class Slot: Sendable {
        private let admission: Admission

        init(_ admission: Admission) {
            self.admission = admission
        }

        deinit {
            admission.count.withLock { $0 -= 1 }
        }
    }
}
