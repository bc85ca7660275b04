// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

/// Sends reports to the servers that collect them.
///
/// A transport must not use the evaluator whose failures it reports, because a failing report server would then cause
/// reports about itself.
public protocol ReportTransport: Sendable {
    /// Posts JSON (`application/json`) to a URI.
    func send(_ json: [UInt8], to uri: String) async throws
}

/// Reports failures of pinned hosts in the background.
///
/// Add its observer to the evaluator: `TrustEvaluator(…, observers: [reporter.observer])`. Connections never wait for a
/// report. The same failure is reported once a day; reports that do not fit the queue are dropped and counted.
public final class PinFailureReporter: Sendable {
    private struct Waiting {
        let report: PinFailureReport
        /// The destinations that have not received the report yet.
        var uris: [String]
        var attempts = 0
    }

    private struct State {
        var queue: [Waiting] = []
        var sentAt: [PinHash: Int64] = [:]
        var task: Task<Void, Never>?
        var counts = Counts()
    }

    /// The numbers of reports.
    public struct Counts: Sendable, Hashable {
        /// The number of reports that all URIs received.
        public var sent = 0
        /// The number of reports that were not sent, because the same failure was already reported in the last
        /// interval.
        public var repeated = 0
        /// The number of reports that were dropped, because the queue was full or sending to a URI failed three times.
        public var dropped = 0
    }

    private let state = Mutex(State())
    private let app: ReportingApp
    private let uris: [String]
    private let transport: any ReportTransport
    private let interval: Int64
    private let queueLimit: Int

    /// The maximum number of attempts to send a report.
    private static let maximumAttempts = 3
    /// The maximum number of failures that are remembered for the rate limit.
    private static let maximumRemembered = 1024

    /// Creates a reporter.
    ///
    /// - Parameters:
    ///   - app: The app that reports.
    ///   - uris: The destinations of reports. There is no default.
    ///   - transport: The transport that sends reports.
    ///   - interval: The minimum time between reports of the same failure (default one day).
    ///   - queueLimit: The maximum number of waiting reports.
    public init(
        app: ReportingApp, uris: [String], transport: any ReportTransport, interval: Duration = .seconds(86_400),
        queueLimit: Int = 32
    ) {
        self.app = app
        self.uris = uris
        self.transport = transport
        self.interval = interval.components.seconds
        self.queueLimit = queueLimit
    }

    /// The numbers of reports so far.
    public var counts: Counts { state.withLock { $0.counts } }

    /// The observer to add to an evaluator.
    public var observer: TrustEvaluator.Observer {
        { [self] activity in
            if let evaluation = activity.evaluation { observe(evaluation) }
        }
    }

    /// Enqueues the report of an evaluation, if it needs one.
    public func observe(_ evaluation: TrustEvaluation) {
        guard let report = PinFailureReport(evaluation) else { return }
        state.withLock { state in
            guard isDue(report, &state) else {
                state.counts.repeated += 1
                return
            }
            guard state.queue.count < queueLimit else {
                state.counts.dropped += 1
                return
            }
            remember(report, &state)
            state.queue.append(Waiting(report: report, uris: uris))
            startIfNeeded(&state)
        }
    }

    /// Sends the waiting reports, and returns when no report is being sent. A report is sent at most three times.
    public func flush() async {
        let task = state.withLock { state in
            startIfNeeded(&state)
            return state.task
        }
        await task?.value
    }

    private func isDue(_ report: PinFailureReport, _ state: inout State) -> Bool {
        guard let last = state.sentAt[report.identity] else { return true }
        return last > report.date || report.date - last >= interval
    }

    private func remember(_ report: PinFailureReport, _ state: inout State) {
        if state.sentAt.count >= Self.maximumRemembered {
            state.sentAt = state.sentAt.filter { report.date - $0.value < interval && $0.value <= report.date }
            if state.sentAt.count >= Self.maximumRemembered { state.sentAt = [:] }
        }
        state.sentAt[report.identity] = report.date
    }

    /// Drops a report. If no destination received it, the next report of the same failure may be sent immediately.
    private func drop(_ waiting: Waiting, _ state: inout State) {
        let report = waiting.report
        state.counts.dropped += 1
        guard waiting.uris.count == uris.count else { return }
        if state.sentAt[report.identity] == report.date { state.sentAt[report.identity] = nil }
    }

    private func startIfNeeded(_ state: inout State) {
        guard state.task == nil, !state.queue.isEmpty else { return }
        state.task = Task.detached(priority: .background) { [self] in await drain() }
    }

    /// Sends each waiting report once. Failed reports wait for the next run.
    private func drain() async {
        var failed: [Waiting] = []
        while var next = removeNext(&failed) {
            let json = Array(next.report.json(app: app).utf8)
            var left: [String] = []
            for uri in next.uris {
                do { try await transport.send(json, to: uri) } catch { left.append(uri) }
            }
            next.uris = left
            guard !left.isEmpty else {
                state.withLock { $0.counts.sent += 1 }
                continue
            }
            next.attempts += 1
            failed.append(next)
        }
    }

    /// Removes the next report. If none waits, marks the task as ended under the same lock, and returns `nil`.
    private func removeNext(_ failed: inout [Waiting]) -> Waiting? {
        state.withLock { state in
            guard state.queue.isEmpty else { return state.queue.removeFirst() }
            state.task = nil
            for report in failed {
                if report.attempts < Self.maximumAttempts, state.queue.count < queueLimit {
                    state.queue.append(report)
                } else {
                    drop(report, &state)
                }
            }
            return nil
        }
    }
}
