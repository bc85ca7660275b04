// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import Synchronization
import TunnelSystem

/// Sends messages over a channel, and returns each reply or the exact reason why there is none.
///
/// Each request ends once: with its reply, at its timeout, or when the sending task is cancelled. A reply that the
/// channel delivers later is dropped.
public final class MessageClient: Sendable {
    /// The default timeout of a request.
    public static let defaultTimeout: Duration = .seconds(10)

    private let channel: any MessageChannel
    private let timeout: Duration
    private let maximumByteCount: Int
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let correlation = Atomic<UInt64>(UInt64.random(in: 1...UInt64.max / 2))

    /// Creates a client of the router on `channel`.
    /// - Parameters:
    ///   - channel: The channel.
    ///   - timeout: The time limit of a request.
    ///   - maximumByteCount: The largest request to send and the largest reply to read.
    ///   - clock: The clock of timeouts.
    ///   - logger: Logs requests and their results, without their contents.
    public init(
        channel: any MessageChannel, timeout: Duration = defaultTimeout,
        maximumByteCount: Int = MessageContainer.defaultMaximumByteCount,
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel.messages") { _ in SwiftLogNoOpLogHandler() }
    ) {
        self.logger = logger
        self.channel = channel
        self.timeout = timeout
        self.maximumByteCount = maximumByteCount
        self.clock = clock
    }

    /// Sends `message` and waits for its reply.
    /// - Parameters:
    ///   - message: The message.
    ///   - timeout: The time limit; `nil` for that of the client.
    /// - Throws: The reason for a missing reply.
    public func send<Message: TunnelMessage>(
        _ message: Message, timeout: Duration? = nil
    ) async throws(MessageError) -> Message.Reply {
        do throws(MessageError) {
            let reply = try await reply(to: message, timeout)
            logger.debug("'\(Message.name)' has its reply")
            return reply
        } catch {
            logger.log(level: error == .cancelled ? .debug : .warning, "'\(Message.name)' has no reply: \(error)")
            throw error
        }
    }

    private func reply<Message: TunnelMessage>(
        to message: Message, _ timeout: Duration?
    ) async throws(MessageError) -> Message.Reply {
        let request = try request(.request, message, name: Message.name, version: Message.version)
        let channel = channel
        let bytes = request.bytes
        let outcome = await withDeadline(timeout ?? self.timeout, clock: clock) {
            () async -> Result<[UInt8]?, MessageError> in
            do { return .success(try await channel.exchange(bytes)) } catch {
                return .failure(MessageError(ofChannel: error))
            }
        }
        guard let reply = try outcome.get(onTimeout: .timeout) else { throw .noReply }
        let container = try container(reply, answering: request.correlation, name: Message.name)
        guard container.kind == .reply, container.version == Message.version else {
            throw .undecodableReply("expected a reply to '\(Message.name)', version \(Message.version)")
        }
        return try decode(Message.Reply.self, container.payload)
    }

    /// Subscribes to elements until either side ends the subscription.
    ///
    /// The sequence throws the errors of the other side. The other side waits while this side reads no elements. If the
    /// channel has only one answer per request, the client fetches each element with a separate request, which the
    /// other side holds until there is an element.
    /// - Throws: `.subscriptionsUnsupported` if the other side does not support subscriptions, or the reason that the
    ///   request could not be sent.
    public func subscribe<Subscription: TunnelSubscription>(
        to subscription: Subscription
    ) async throws(MessageError) -> MessageStream<Subscription.Element> {
        let request = try request(.subscribe, subscription, name: Subscription.name, version: Subscription.version)
        let (bytes, channel) = (request.bytes, channel)
        // The timeout applies to the opening of the subscription, not to its elements.
        let outcome = await withDeadline(timeout, clock: clock) {
            [self] () async -> Result<any MessageFrames, MessageError> in
            do {
                if let channel = channel as? any SubscribableChannel { return .success(try await channel.open(bytes)) }
                return .success(
                    try await FetchedFrames(opening: bytes, on: channel, limit: maximumByteCount, clock: clock))
            } catch {
                return .failure(MessageError(ofChannel: error))
            }
        }
        logger.debug("'\(Subscription.name)' is subscribed to: \(outcome.word)")
        return MessageStream(frames: try outcome.get(onTimeout: .timeout)) { [self] frame throws(MessageError) in
            let container = try container(frame, answering: request.correlation, name: Subscription.name)
            switch container.kind {
            case .end: return nil
            case .element: return try decode(Subscription.Element.self, container.payload)
            default: throw .undecodableReply("expected an element of '\(Subscription.name)'")
            }
        }
    }

    // MARK: - Both ways

    private func request<Message: Encodable>(
        _ kind: MessageContainer.Kind, _ message: Message, name: String, version: UInt16
    ) throws(MessageError) -> (bytes: [UInt8], correlation: UInt64) {
        let payload: [UInt8]
        do { payload = try MessageCoding.encode(message) } catch {
            throw .unencodableMessage("'\(name)' does not encode as JSON")
        }
        let number = correlation.wrappingAdd(1, ordering: .relaxed).newValue
        let container = MessageContainer(
            kind: kind, name: name, version: version, correlation: number, payload: payload)
        do throws(MessageContainerError) {
            return (try container.encoded(limit: maximumByteCount), number)
        } catch {
            guard case .tooLarge(let byteCount, let limit) = error else { throw .unencodableMessage("\(error)") }
            throw .tooLarge(.request, byteCount: byteCount, limit: limit)
        }
    }

    /// Decodes the container in `bytes`, which must answer our request, and throws the error that it carries, if any.
    private func container(
        _ bytes: [UInt8], answering correlation: UInt64, name: String
    ) throws(MessageError) -> MessageContainer {
        let container: MessageContainer
        do throws(MessageContainerError) {
            container = try MessageContainer(decoding: bytes, limit: maximumByteCount)
        } catch {
            guard case .tooLarge(let byteCount, let limit) = error else { throw .undecodableReply("\(error)") }
            throw .tooLarge(.reply, byteCount: byteCount, limit: limit)
        }
        if container.kind == .error, container.correlation == correlation || container.correlation == 0 {
            throw try decode(MessageError.self, container.payload)
        }
        guard container.correlation == correlation, container.name == name else {
            throw .undecodableReply("it answers another request")
        }
        return container
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws(MessageError) -> Value {
        do { return try MessageCoding.decode(type, from: bytes) } catch {
            throw .undecodableReply(DecodingError.summary(of: error))
        }
    }
}

/// The elements of a subscription.
///
/// It ends when the other side ends it, and throws if that side closes without an end. One task may iterate it, once.
/// If that task is cancelled or the sequence is released, the client tells the other side to stop.
public struct MessageStream<Element: Sendable>: AsyncSequence, Sendable {
    private let source: Source

    init(
        frames: any MessageFrames, decode: @escaping @Sendable ([UInt8]) throws(MessageError) -> Element?
    ) {
        source = Source(frames: frames, decode: decode)
    }

    /// Takes elements one at a time.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let source: Source

        /// The next element, or `nil` if the other side ended the subscription or the task is cancelled.
        /// - Throws: `.closed` if the other side closed without an end, or the error that it sent.
        public mutating func next() async throws(MessageError) -> Element? {
            try await source.next()
        }
    }

    /// Begins to take elements.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(source: source)
    }

    /// Tells the other side to stop. It may be called repeatedly.
    public func cancel() {
        source.frames.cancel()
    }

    fileprivate final class Source: Sendable {
        let frames: any MessageFrames
        private let decode: @Sendable ([UInt8]) throws(MessageError) -> Element?
        private let isOver = Atomic(false)

        init(
            frames: any MessageFrames, decode: @escaping @Sendable ([UInt8]) throws(MessageError) -> Element?
        ) {
            self.frames = frames
            self.decode = decode
        }

        deinit {
            frames.cancel()
        }

        func next() async throws(MessageError) -> Element? {
            guard !isOver.load(ordering: .relaxed) else { return nil }
            do {
                let frame = try await withTaskCancellationHandler {
                    try await frames.next()
                } onCancel: {
                    frames.cancel()
                }
                guard !Task.isCancelled else { return end() }
                guard let frame else { throw MessageError.closed }
                guard let element = try decode(frame) else { return end() }
                return element
            } catch {
                _ = end()
                guard !Task.isCancelled else { return nil }
                throw MessageError(ofChannel: error)
            }
        }

        private func end() -> Element? {
            isOver.store(true, ordering: .relaxed)
            frames.cancel()
            return nil
        }
    }
}

extension DeadlineOutcome {
    /// Returns the value of a result that arrived in time.
    func get<Success: Sendable>(onTimeout error: MessageError) throws(MessageError) -> Success
    where Value == Result<Success, MessageError> {
        switch self {
        case .finished(let result): return try result.get()
        case .timedOut: throw error
        case .cancelled: throw .cancelled
        }
    }
}

extension DeadlineOutcome<Result<any MessageFrames, MessageError>> {
    /// A word for the result, for the log.
    fileprivate var word: String {
        switch self {
        case .timedOut: "no answer in time"
        case .cancelled: "cancelled"
        case .finished(.failure(let error)): "\(error)"
        case .finished(.success): "accepted"
        }
    }
}
