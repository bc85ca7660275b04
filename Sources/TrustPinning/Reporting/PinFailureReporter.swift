// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

/// Sends reports to where they are collected.
///
/// It must not go through the evaluator whose failures it reports: a server of reports that fails would report itself.
public protocol ReportTransport: Sendable {
    /// Posts JSON (`application/json`) to a URI.
    func send(_ json: [UInt8], to uri: String) async throws
}

/// Reports failures of pinned hosts in the background.
///
/// It is an observer of evaluations: `TrustEvaluator(…, observers: [reporter.observer])`. A connection never waits for a
/// report. The same failure is reported once in a day, and what does not fit the queue is dropped and counted.
public final class PinFailureReporter: Sendable {
    private struct Waiting {
        let report: PinFailureReport
        /// Where it has not arrived yet.
        var uris: [String]
        var attempts = 0
    }

    private struct State {
        var queue: [Waiting] = []
        var sentAt: [PinHash: Int64] = [:]
        var task: Task<Void, Never>?
        var counts = Counts()
    }

    /// How many reports there were.
    public struct Counts: Sendable, Hashable {
        /// Arrived at each of the URIs.
        public var sent = 0
        /// Left out, because the same had been reported in the last day.
        public var repeated = 0
        /// Left out, because the queue was full or sending to one of the URIs failed three times.
        public var dropped = 0
    }

    private let state = Mutex(State())
    private let app: ReportingApp
    private let uris: [String]
    private let transport: any ReportTransport
    private let interval: Int64
    private let queueLimit: Int

    /// How often a report is tried to be sent.
    private static let maximumAttempts = 3
    /// How many failures are remembered for the limit of the rate.
    private static let maximumRemembered = 1024

    /// A reporter.
    ///
    /// - Parameters:
    ///   - app: the app that reports.
    ///   - uris: where reports go. There is no default.
    ///   - transport: sends them.
    ///   - interval: how long the same failure is not reported again.
    ///   - queueLimit: how many reports wait at most.
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

    /// How many reports there were so far.
    public var counts: Counts { state.withLock { $0.counts } }

    /// Hears of evaluations.
    public var observer: TrustEvaluator.Observer {
        { [self] activity in
            if let evaluation = activity.evaluation { observe(evaluation) }
        }
    }

    /// Takes an evaluation; what is to be reported of it waits to be sent.
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
            start(&state)
        }
    }

    /// Sends what waits, and returns when nothing is under way any more. What failed is tried again, up to three times.
    public func flush() async {
        let task = state.withLock { state in
            start(&state)
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

    /// A report that nobody got does not keep the next one of the same failure back; one that somebody got does.
    private func drop(_ waiting: Waiting, _ state: inout State) {
        let report = waiting.report
        state.counts.dropped += 1
        guard waiting.uris.count == uris.count else { return }
        if state.sentAt[report.identity] == report.date { state.sentAt[report.identity] = nil }
    }

    private func start(_ state: inout State) {
        guard state.task == nil, !state.queue.isEmpty else { return }
        state.task = Task.detached(priority: .background) { [self] in await drain() }
    }

    /// Sends each report that waits once; those that fail wait for the next time.
    private func drain() async {
        var failed: [Waiting] = []
        while var next = takeNext(&failed) {
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

    /// The next report; nil ends the task, in the same step in which it is seen that nothing waits.
    private func takeNext(_ failed: inout [Waiting]) -> Waiting? {
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
