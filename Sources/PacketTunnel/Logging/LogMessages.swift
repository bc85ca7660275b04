// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import TunnelSystem

/// Asks a tunnel's host for lines of its log. The host itself answers, whatever the provider is, even while the tunnel
/// starts or fails.
///
/// ```swift
/// var request = LogRequest()
/// while true {
///     let page = try await client.send(request)
///     show(page.records)
///     request.after = page.position
///     guard page.hasMore else { break }
/// }
/// ```
public struct LogRequest: TunnelMessage {
    /// Lines.
    public typealias Reply = LogPage

    /// The name of the message.
    public static let name = "culvert.log.read"

    /// The ``LogPage/position`` of the page before; 0 begins with the oldest line.
    public var after: UInt64
    /// The lowest level to return.
    public var minimumLevel: Logger.Level

    /// A request.
    public init(after: UInt64 = 0, minimumLevel: Logger.Level = .trace) {
        self.after = after
        self.minimumLevel = minimumLevel
    }
}

/// Asks a tunnel's host for the lines of its log as they are written, in batches. As with ``LogRequest``, the host
/// itself answers.
///
/// ```swift
/// for try await page in try await client.subscribe(to: LogSubscription()) { show(page.records) }
/// ```
public struct LogSubscription: TunnelSubscription {
    /// Lines.
    public typealias Element = LogPage

    /// The name of the subscription.
    public static let name = "culvert.log.follow"

    /// The ``LogPage/position`` to continue from; 0 begins with the oldest line.
    public var after: UInt64
    /// The lowest level to return.
    public var minimumLevel: Logger.Level

    /// A subscription.
    public init(after: UInt64 = 0, minimumLevel: Logger.Level = .trace) {
        self.after = after
        self.minimumLevel = minimumLevel
    }
}

/// Lines of a log, oldest first.
public struct LogPage: Codable, Hashable, Sendable {
    /// The lines.
    public var records: [LogRecord]
    /// The position of the next page.
    public var position: UInt64
    /// Whether further lines are available now.
    public var hasMore: Bool

    /// A page.
    public init(records: [LogRecord], position: UInt64, hasMore: Bool) {
        self.records = records
        self.position = position
        self.hasMore = hasMore
    }
}

extension LogPage {
    /// The limit on the text of a page, in bytes. It is far below the limit of every channel.
    static let maximumByteCount = 64 << 10

    /// Creates a page with as many of `records` as fit. They are the records after position `after`.
    init(_ records: ArraySlice<LogRecord>, after: UInt64) {
        var (count, byteCount) = (0, 0)
        for record in records {
            byteCount += record.textByteCount
            // A page always contains at least one record.
            guard count == 0 || byteCount <= Self.maximumByteCount else { break }
            count += 1
        }
        let page = Array(records.prefix(count))
        self.init(records: page, position: page.last?.sequence ?? after, hasMore: count < records.count)
    }
}

extension RingLogFile {
    /// Returns the lines after a position, or all lines if the log was recreated since.
    func page(after position: UInt64, minimumLevel: Logger.Level) -> LogPage {
        let after = position > content.lastSequence ? 0 : position
        let new = records().filter { $0.sequence > after }
        var page = LogPage(new.filter { $0.level >= minimumLevel }[...], after: after)
        // Skip the lines of lower levels at the next request.
        if !page.hasMore { page.position = max(after, new.last?.sequence ?? 0) }
        return page
    }
}

extension MessageRouter {
    /// Answers ``LogRequest`` and ``LogSubscription`` with the lines of a log.
    /// - Parameters:
    ///   - log: The log.
    ///   - interval: The polling interval for subscribers.
    public func on(_ log: RingLogFile, every interval: Duration = .milliseconds(250)) {
        let clock = clock
        on(LogRequest.self) { request in
            log.page(after: request.after, minimumLevel: request.minimumLevel)
        }
        on(LogSubscription.self) { subscription, sink in
            var position = subscription.after
            if position > log.content.lastSequence { position = 0 }
            var iterator = log.follow(after: position, every: interval, clock: clock).makeAsyncIterator()
            while let new = await iterator.nextRecords() {
                var records = new.filter { $0.level >= subscription.minimumLevel }[...]
                while !records.isEmpty {
                    let page = LogPage(records, after: position)
                    try await sink.send(page)
                    position = page.position
                    records = records.dropFirst(page.records.count)
                }
            }
        }
    }
}

extension LogRecord: Codable {
    private enum CodingKeys: String, CodingKey {
        case sequence, time, level, origin, pid, label, message, metadata, cut
    }

    /// The approximate number of bytes that the record takes in a page.
    fileprivate var textByteCount: Int {
        fields.reduce(128 + label.utf8.count + message.utf8.count) { $0 + 16 + $1.key.utf8.count + $1.value.utf8.count }
    }

    /// Decodes.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let origin = LogOrigin(rawValue: try container.decode(UInt8.self, forKey: .origin)) ?? .other
        let metadata = try container.decodeIfPresent([[String]].self, forKey: .metadata) ?? []
        self.init(
            time: try container.decode(Int64.self, forKey: .time),
            level: try container.decode(Logger.Level.self, forKey: .level), origin: origin,
            processID: try container.decode(Int32.self, forKey: .pid),
            label: try container.decode(String.self, forKey: .label),
            message: try container.decode(String.self, forKey: .message),
            fields: metadata.compactMap { pair in pair.count == 2 ? Field(pair[0], pair[1]) : nil })
        sequence = try container.decode(UInt64.self, forKey: .sequence)
        isCut = try container.decodeIfPresent(Bool.self, forKey: .cut) ?? false
    }

    /// Encodes.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(sequence, forKey: .sequence)
        try container.encode(time, forKey: .time)
        try container.encode(level, forKey: .level)
        try container.encode(origin.rawValue, forKey: .origin)
        try container.encode(processID, forKey: .pid)
        try container.encode(label, forKey: .label)
        try container.encode(message, forKey: .message)
        if !fields.isEmpty { try container.encode(fields.map { [$0.key, $0.value] }, forKey: .metadata) }
        if isCut { try container.encode(true, forKey: .cut) }
    }
}
