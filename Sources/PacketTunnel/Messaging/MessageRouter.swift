// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import Synchronization
import TunnelSystem

/// Answers messages with the handler that is registered for their name and version.
///
/// Every request gets exactly one answer: the reply, or an error that says why there is none. Any thread may register
/// handlers and hand over requests; handlers run at the same time, each in a task of its own.
public final class MessageRouter: Sendable {
    /// What a router allows.
    public struct Limits: Sendable {
        /// The largest request that is read and the largest reply that is sent.
        public var maximumByteCount: Int
        /// The largest reply that is sent, where a reply may be larger than a request.
        package var maximumReplyByteCount: Int?
        /// How long a handler may take. One that takes longer is cancelled, and its reply dropped; nil: any time.
        public var handlerTimeout: Duration?
        /// How many handlers may run at a time, those included whose time was up and that go on; more are told `busy`.
        public var maximumRequests: Int
        /// How many subscriptions there may be at a time.
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

    /// A name and version that is answered.
    public struct Registration: Hashable, Sendable {
        /// The name.
        public let name: String
        /// The version.
        public let version: UInt16
    }

    /// Why a handler was not registered.
    public enum RegistrationError: Error, Hashable, Sendable {
        /// There is one for this name and version; ``MessageRouter/replace(_:with:)-(Message.Type,_)`` replaces it.
        case alreadyRegistered(name: String, version: UInt16)
        /// Names are 1 to 255 of the characters `A-Z a-z 0-9 . _ -`.
        case invalidName(String)
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
        var isClosed = false
        var logger: Logger
    }

    let limits: Limits
    let clock: any Clock<Duration>
    /// The subscriptions of those who fetch each element.
    let fetched = FetchedSubscriptions()
    private let state: Mutex<State>
    private let requests: Admission
    private let subscriptions: Admission

    /// A router without handlers.
    /// - Parameters:
    ///   - limits: how much clients may ask of it.
    ///   - clock: measures the handlers' time.
    ///   - logger: where it writes what it answers and why it does not, without what messages say.
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

    /// Answers messages of this type with `handler`.
    /// - Throws: `.alreadyRegistered` when its name and version have one, `.invalidName`.
    public func register<Message: TunnelMessage>(
        _ type: Message.Type, handler: @escaping @Sendable (Message) async throws -> Message.Reply
    ) throws(RegistrationError) {
        try set(Message.name, Message.version, .request(Self.erase(handler)), replacing: false)
    }

    /// Answers messages of this type with `handler` from here on, whether or not another did before.
    /// - Throws: `.invalidName`.
    public func replace<Message: TunnelMessage>(
        _ type: Message.Type, with handler: @escaping @Sendable (Message) async throws -> Message.Reply
    ) throws(RegistrationError) {
        try set(Message.name, Message.version, .request(Self.erase(handler)), replacing: true)
    }

    /// Answers messages of this type with `handler` from here on, whether or not another did before.
    ///
    /// As ``replace(_:with:)-(Message.Type,_)``, for a message whose name is known to be valid: nobody can send another, and who
    /// tries is told.
    public func answer<Message: TunnelMessage>(
        _ type: Message.Type, with handler: @escaping @Sendable (Message) async throws -> Message.Reply
    ) {
        do throws(RegistrationError) {
            try replace(type, with: handler)
        } catch {
            // Nobody can send it.
        }
    }

    /// Answers subscriptions of this type with what `handler` puts into the sink, until it returns or throws.
    ///
    /// The handler's task is cancelled when the subscriber goes away.
    /// - Throws: `.alreadyRegistered` when its name and version have a handler, `.invalidName`.
    public func register<Subscription: TunnelSubscription>(
        _ type: Subscription.Type,
        handler: @escaping @Sendable (Subscription, SubscriptionSink<Subscription.Element>) async throws -> Void
    ) throws(RegistrationError) {
        try set(Subscription.name, Subscription.version, .subscription(erase(handler)), replacing: false)
    }

    /// Answers subscriptions of this type with `handler` from here on, whether or not another did before.
    /// - Throws: `.invalidName`.
    public func replace<Subscription: TunnelSubscription>(
        _ type: Subscription.Type,
        with handler: @escaping @Sendable (Subscription, SubscriptionSink<Subscription.Element>) async throws -> Void
    ) throws(RegistrationError) {
        try set(Subscription.name, Subscription.version, .subscription(erase(handler)), replacing: true)
    }

    /// Answers messages of this type no longer; handlers that run go on.
    /// - Returns: whether there was a handler.
    @discardableResult
    public func remove<Message: TunnelMessage>(_ type: Message.Type) -> Bool {
        remove(Message.name, Message.version)
    }

    /// Answers subscriptions of this type no longer; those that run go on.
    /// - Returns: whether there was a handler.
    @discardableResult
    public func remove<Subscription: TunnelSubscription>(_ type: Subscription.Type) -> Bool {
        remove(Subscription.name, Subscription.version)
    }

    /// What is answered, in order of name and version.
    public var registrations: [Registration] {
        state.withLock(\.handlers)
            .flatMap { name, versions in versions.keys.map { Registration(name: name, version: $0) } }
            .sorted { ($0.name, $0.version) < ($1.name, $1.version) }
    }

    /// Tells every request from here on that the tunnel is closed, and lets go of the handlers.
    public func close() {
        state.withLock { state in
            state.isClosed = true
            state.handlers = [:]
        }
        fetched.close()
    }

    /// Where it writes what it answers, and why it does not. What messages say is not written.
    public var logger: Logger {
        get { state.withLock { $0.logger } }
        set { state.withLock { $0.logger = newValue } }
    }

    // MARK: - Answering

    /// The answer to a request: always one, also to bytes that are no request.
    ///
    /// A subscription can be asked for in this way too: each of its elements is then the answer to a request of its own, as a
    /// ``MessageClient`` makes them where its channel carries no more than that.
    ///
    /// When the calling task is cancelled, so is the handler, and an answer comes at once.
    public func respond(to bytes: [UInt8]) async -> [UInt8] {
        let request: MessageContainer
        do throws(MessageError) { request = try decode(bytes) } catch { return refuse(error, nil) }
        switch request.kind {
        case .subscribe: return begin(request)
        case .take: return await take(request)
        case .leave: return leave(request)
        default: return await respond(to: request)
        }
    }

    /// Answers a request or a subscription with calls of `send`, which returns when there is room for more.
    ///
    /// It returns when everything was sent, and before that when `send` throws or the calling task is cancelled.
    public func serve(_ bytes: [UInt8], send: @escaping @Sendable ([UInt8]) async throws -> Void) async {
        let answer: [UInt8]
        do throws(MessageError) {
            let request = try decode(bytes)
            if request.kind == .subscribe {
                answer = await serve(subscription: request, send: send)
            } else {
                answer = await respond(to: request)
            }
        } catch {
            answer = refuse(error, nil)
        }
        // Whoever does not take the answer any more is gone.
        do { try await send(answer) } catch {}
    }

    private func respond(to request: MessageContainer) async -> [UInt8] {
        do throws(MessageError) {
            guard request.kind == .request else { throw .undecodableMessage("it is no request") }
            guard case .request(let handler) = try handler(for: request) else {
                throw .noHandler(name: request.name)
            }
            guard let slot = requests.enter() else { throw .busy }
            let payload = request.payload
            let outcome = await withDeadline(limits.handlerTimeout, clock: clock) {
                () async -> Result<[UInt8], MessageError> in
                // Held until the handler has really ended, whatever became of the deadline.
                defer { withExtendedLifetime(slot) {} }
                do throws(MessageError) { return .success(try await handler(payload)) } catch { return .failure(error) }
            }
            switch outcome {
            case .timedOut: throw .handlerTimeout
            case .cancelled: throw .cancelled
            case .finished(let result):
                let reply = try encode(.reply, request, try result.get())
                logger.debug("'\(request.name)' was answered with \(reply.count) bytes")
                return reply
            }
        } catch {
            return refuse(error, request)
        }
    }

    /// An error as the answer, which the log has too.
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

    /// An error as the answer to `request`, or to bytes that were none.
    func failure(_ error: MessageError, of request: MessageContainer?) -> [UInt8] {
        MessageRouter.failure(error, of: request)
    }

    /// The answer to a request for which there is no provider; nil for bytes that are no request.
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
        do { return try MessageCoding.decode(type, from: bytes) } catch {
            throw .undecodableMessage(DecodingError.summary(of: error))
        }
    }

    private func set(
        _ name: String, _ version: UInt16, _ handler: Handler, replacing: Bool
    ) throws(RegistrationError) {
        guard MessageContainer.isValidName(name) else { throw .invalidName(name) }
        let isTaken = state.withLock { state in
            guard !state.isClosed else { return false }
            if !replacing, state.handlers[name]?[version] != nil { return true }
            state.handlers[name, default: [:]][version] = handler
            return false
        }
        guard !isTaken else { throw .alreadyRegistered(name: name, version: version) }
    }

    private func remove(_ name: String, _ version: UInt16) -> Bool {
        state.withLock { state in
            guard state.handlers[name]?.removeValue(forKey: version) != nil else { return false }
            if state.handlers[name]?.isEmpty == true { state.handlers[name] = nil }
            return true
        }
    }
}

/// Where a subscription's handler puts its elements.
public struct SubscriptionSink<Element: Codable & Sendable>: Sendable {
    let write: @Sendable ([UInt8]) async throws -> Void

    /// Sends one element; returns when there is room for the next.
    /// - Throws: `.closed` when the subscriber is gone, `.tooLarge` when the element is larger than allowed.
    public func send(_ element: Element) async throws(MessageError) {
        let payload: [UInt8]
        do { payload = try MessageCoding.encode(element) } catch { throw .unencodableMessage("an element is no JSON") }
        do { try await write(payload) } catch { throw MessageError(ofChannel: error) }
    }

    /// Sends what a sequence gives, until it ends or the subscriber is gone.
    public func send<Elements: AsyncSequence>(contentsOf elements: Elements) async throws
    where Elements.Element == Element {
        for try await element in elements { try await send(element) }
    }
}

/// Lets a number of things happen at a time.
final class Admission: Sendable {
    private let limit: Int
    private let count = Mutex(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// A place, free again when the last reference to it goes; nil when all are taken.
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
