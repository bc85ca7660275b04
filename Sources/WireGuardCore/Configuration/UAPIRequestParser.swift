// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Parses UAPI requests from a connection, in pieces of any size.
///
/// A connection may contain many requests, each followed by a blank line. After the last one, the end of the connection
/// may replace the blank line. A request is applied completely or not at all: the parser returns an update only if all
/// its lines are valid. After an error it skips the rest of that request, up to its blank line, and parses the next one
/// as usual.
///
/// The limits and the size of one ``feed(_:)-(Span<UInt8>)`` bound the memory. Complete lines are parsed in place. The
/// stored part of a split line is wiped after use. The caller must wipe its own bytes.
public struct UAPIRequestParser: Sendable {
    /// The default limit of a line, in bytes.
    public static let defaultMaximumLineLength = 1 << 20
    /// The default limit of a request, in bytes.
    public static let defaultMaximumRequestLength = 64 << 20

    private enum State: Equatable {
        case idle
        case get
        case set
        /// The request has failed. Its lines are skipped up to the blank line.
        case skipping
    }

    private let maximumLineLength: Int
    private let maximumRequestLength: Int
    private let maximumPeers: Int
    private let maximumAllowedIPs: Int
    private let resolveZone: @Sendable (String) -> UInt32?

    private var state = State.idle
    /// The start of a line whose end has not arrived yet.
    private var partialLine: ContiguousArray<UInt8> = []
    /// While skipping: whether the current line, which has not ended, has any bytes.
    private var skippedLineHasBytes = false
    private var lineNumber = 0
    private var requestLength = 0
    private var requestAllowedIPs = 0
    private var update = UAPIDeviceUpdate()
    private var results: [Result<UAPIOperation, UAPIError>] = []
    private var nextResult = 0

    /// A parser at the start of a connection.
    /// - Parameters:
    ///   - maximumLineLength: The longest line, in bytes; a longer one fails with `EPROTO`.
    ///   - maximumRequestLength: The longest request, in bytes; a longer one fails with `EPROTO`.
    ///   - maximumPeers: The maximum number of peer sections in a request; more fail with `ENOMEM`.
    ///   - maximumAllowedIPs: The maximum number of changes of allowed IPs in a request; more fail with `ENOMEM`.
    ///   - resolveZone: Returns the index of the interface with this name, for an `endpoint` such as
    ///     `[fe80::1%eth0]:51820`.
    public init(
        maximumLineLength: Int = defaultMaximumLineLength, maximumRequestLength: Int = defaultMaximumRequestLength,
        maximumPeers: Int = .max, maximumAllowedIPs: Int = .max,
        resolveZone: @escaping @Sendable (String) -> UInt32? = { _ in nil }
    ) {
        self.maximumLineLength = maximumLineLength
        self.maximumRequestLength = maximumRequestLength
        self.maximumPeers = maximumPeers
        self.maximumAllowedIPs = maximumAllowedIPs
        self.resolveZone = resolveZone
    }

    /// Returns the next complete request, or the error of one; `nil` until more bytes arrive.
    public mutating func next() -> Result<UAPIOperation, UAPIError>? {
        guard nextResult < results.count else { return nil }
        let result = results[nextResult]
        nextResult += 1
        if nextResult == results.count {
            results.removeAll()
            nextResult = 0
        }
        return result
    }

    /// Parses the next bytes of the connection.
    public mutating func feed(_ bytes: [UInt8]) { feed(bytes[bytes.indices].span) }

    /// Parses the next bytes of the connection.
    public mutating func feed(_ bytes: Span<UInt8>) {
        var start = 0
        while start < bytes.count {
            guard let end = ASCII.firstIndex(of: ASCII.newline, in: bytes, from: start) else {
                keep(bytes.extracting(start..<bytes.count))
                return
            }
            finishLine(bytes.extracting(start..<end))
            start = end + 1
        }
    }

    /// Handles the end of the connection. A request that lacks only its blank line is complete.
    ///
    /// A request that ends within a line fails, because the line may end in the middle of a number.
    public mutating func finish() {
        if state != .skipping, !partialLine.isEmpty {
            lineNumber += 1
            let line = takePartialLine()
            fail(
                .protocolError, line.span, "the connection ended inside this line",
                fix: "end each line with a line feed, and the request with a blank line")
            release(line)
        }
        if state == .get || state == .set { finishRequest() }
        reset()
    }

    // MARK: - Lines

    private mutating func keep(_ bytes: Span<UInt8>) {
        guard state != .skipping else {
            skippedLineHasBytes = skippedLineHasBytes || bytes.count > 0
            return
        }
        guard partialLine.count + bytes.count <= maximumLineLength else {
            failLongLine(bytes)
            return
        }
        // Reserve space for any line with a key, so that growing leaves no copy of it behind.
        if partialLine.isEmpty { partialLine.reserveCapacity(max(128, bytes.count)) }
        for index in 0..<bytes.count { partialLine.append(bytes[index]) }
    }

    private mutating func finishLine(_ rest: Span<UInt8>) {
        if state == .skipping {
            if rest.count == 0, !skippedLineHasBytes { reset() }
            skippedLineHasBytes = false
            return
        }
        guard partialLine.count + rest.count <= maximumLineLength else {
            failLongLine(rest)
            skippedLineHasBytes = false
            return
        }
        if partialLine.isEmpty {
            read(rest)
        } else {
            for index in 0..<rest.count { partialLine.append(rest[index]) }
            let line = takePartialLine()
            read(line.span)
            release(line)
        }
    }

    private mutating func failLongLine(_ bytes: Span<UInt8>) {
        lineNumber += 1
        if partialLine.isEmpty {
            failLongLine(startingWith: bytes)
        } else {
            let line = takePartialLine()
            failLongLine(startingWith: line.span)
            release(line)
        }
        skippedLineHasBytes = true
    }

    private mutating func failLongLine(startingWith start: Span<UInt8>) {
        fail(
            .protocolError, start.extracting(0..<min(64, start.count)),
            "the line has more than \(maximumLineLength) bytes", fix: "send one setting in each line")
    }

    private mutating func takePartialLine() -> ContiguousArray<UInt8> {
        let line = partialLine
        partialLine = []
        return line
    }

    /// Wipes a stored line, and keeps its memory for the next one.
    private mutating func release(_ line: consuming ContiguousArray<UInt8>) {
        var line = line
        unsafe line.withUnsafeMutableBytes { unsafe wipe($0) }
        guard line.capacity <= 4096 else { return }
        line.removeAll(keepingCapacity: true)
        partialLine = line
    }

    private mutating func read(_ line: Span<UInt8>) {
        guard line.count > 0 else {
            // Ignore a blank line between requests.
            if state != .idle { finishRequest() }
            return
        }
        lineNumber += 1
        requestLength += line.count + 1
        guard requestLength <= maximumRequestLength else {
            fail(
                .protocolError, line, "the request has more than \(maximumRequestLength) bytes",
                fix: "send it as several requests")
            return
        }
        switch state {
        case .idle:
            if ASCII.equal(line, "set=1") {
                state = .set
            } else if ASCII.equal(line, "get=1") {
                state = .get
            } else {
                fail(
                    .protocolError, line, "this is not the first line of a request",
                    fix: "send get=1 or set=1, ended by LF alone")
            }
        case .get:
            fail(.protocolError, line, "a blank line follows get=1", fix: "send get=1 and a blank line")
        case .set:
            do throws(UAPILineError) {
                let before = update.peers.last?.allowedIPs.count ?? 0
                let peersBefore = update.peers.count
                try update.apply(line, resolveZone: resolveZone)
                guard update.peers.count <= maximumPeers else {
                    fail(
                        .outOfMemory, line, "the request has more than \(maximumPeers) peers",
                        fix: "send it as several requests, or give the device a larger memory budget")
                    return
                }
                if update.peers.count == peersBefore {
                    requestAllowedIPs += (update.peers.last?.allowedIPs.count ?? 0) - before
                }
                guard requestAllowedIPs <= maximumAllowedIPs else {
                    fail(
                        .outOfMemory, line, "the request has more than \(maximumAllowedIPs) changes of allowed IPs",
                        fix: "send it as several requests, or give the device a larger memory budget")
                    return
                }
            } catch {
                fail(error.errno, line, error.reason, fix: error.fix)
            }
        case .skipping: break
        }
    }

    // MARK: - Requests

    private mutating func finishRequest() {
        results.append(.success(state == .get ? .get : .set(update)))
        reset()
    }

    private mutating func fail(_ errno: UAPIErrno, _ line: Span<UInt8>, _ reason: String, fix: String) {
        let operation: UAPIOperationKind =
            switch state {
            case .idle, .skipping: .unknown
            case .get: .get
            case .set: .set
            }
        results.append(
            .failure(
                UAPIError(
                    errno: errno, operation: operation, line: lineNumber, text: UAPILine.redacted(line), reason: reason,
                    fix: fix)))
        reset()
        state = .skipping
    }

    private mutating func reset() {
        state = .idle
        skippedLineHasBytes = false
        lineNumber = 0
        requestLength = 0
        requestAllowedIPs = 0
        update = UAPIDeviceUpdate()
    }
}
