// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import Metrics
import Synchronization
import TunnelSystem

/// Counts and logs the requests of one listener.
final class RequestReport: Sendable {
    private let name: String
    private let metrics: any MetricsFactory
    private let logger: Logger
    private let refusals = Mutex(BoundedLog(most: 20))
    private static let origin = ContinuousClock.now

    /// - Parameter name: The name of the listener.
    init(name: String, metrics: any MetricsFactory, logger: Logger) {
        self.name = name
        self.metrics = metrics
        self.logger = logger
    }

    /// Counts an answered request.
    /// - Parameter path: The template of the route's path.
    func answered(_ status: Int, _ path: String, in time: Duration) {
        let labels = [("listener", name), ("route", path)]
        Timer(label: "culvert_gateway_request_seconds", dimensions: labels, factory: metrics)
            .recordNanoseconds(Int64(time.milliseconds * 1e6))
        Counter(
            label: "culvert_gateway_requests_total", dimensions: labels + [("status", "\(status)")], factory: metrics
        ).increment()
    }

    /// Counts a refused request or connection, and logs it at a bounded rate.
    func refused(_ code: String, _ what: String, _ source: RequestSource) {
        Counter(
            label: "culvert_gateway_refusals_total", dimensions: [("listener", name), ("code", code)], factory: metrics
        ).increment()
        let now = (ContinuousClock.now - Self.origin).milliseconds * 1e6
        let lines = refusals.withLock {
            $0.lines("\(name): \(what) from \(source.text) refused: \(code)", at: Int64(now))
        }
        for line in lines { logger.notice("\(line)") }
    }
}

extension RequestSource {
    /// The source for the log.
    fileprivate var text: String {
        switch self {
        case .address(let address): "\(address)"
        case .process(let user): "user \(user)"
        case .unknown: "an unknown source"
        }
    }
}

extension Duration {
    fileprivate var milliseconds: Double {
        Double(components.seconds) * 1e3 + Double(components.attoseconds) / 1e15
    }
}
