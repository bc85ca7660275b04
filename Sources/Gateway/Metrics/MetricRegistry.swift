// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Metrics
import Synchronization

/// Collects the metrics of swift-metrics for Prometheus: counters, gauges, and histograms of durations in seconds.
///
/// The labels of counters and timers are Prometheus names. Series are never removed, so the values of their dimensions
/// must be from short lists, never from a request.
package final class MetricRegistry: MetricsFactory {
    private struct Key: Hashable {
        var name: String
        var labels: [MetricFamily.Label]
    }

    private enum Series {
        case counter(CounterSeries)
        case gauge(GaugeSeries)
        case histogram(HistogramSeries)
    }

    private let help: [String: String]
    private let series = Mutex<[Key: Series]>([:])
    /// The largest number of series. Further series are not counted.
    private static let most = 4096

    /// - Parameter help: The description of each metric, by its name.
    package init(help: [String: String] = [:]) { self.help = help }

    /// The current values of all series.
    package var families: [MetricFamily] {
        let all = series.withLock { Array($0) }
        var families: [String: MetricFamily] = [:]
        for (key, series) in all.sorted(by: { $0.key.labels.lexicographicallyPrecedes($1.key.labels) }) {
            let (kind, samples): (MetricFamily.Kind, [MetricFamily.Sample]) =
                switch series {
                case .counter(let counter): (.counter, [.init(counter.value, labels: key.labels)])
                case .gauge(let gauge): (.gauge, [.init(gauge.value, labels: key.labels)])
                case .histogram(let histogram): (.histogram, histogram.samples(key.labels))
                }
            families[key.name, default: MetricFamily(key.name, kind, help[key.name] ?? key.name, [])].samples += samples
        }
        return Array(families.values)
    }

    /// Increments a counter without labels.
    func count(_ label: String) { Counter(label: label, factory: self).increment() }

    private func find<Found: Sendable>(
        _ label: String, _ dimensions: [(String, String)], _ found: (Series) -> Found?, _ make: () -> (Series, Found)
    ) -> Found {
        let key = Key(name: label, labels: dimensions.map { MetricFamily.Label($0.0, $0.1) }.sorted())
        return series.withLock { series in
            if let present = series[key].flatMap(found) { return present }
            let (made, result) = make()
            if series[key] == nil, series.count < Self.most { series[key] = made }
            return result
        }
    }

    private func counter(_ label: String, _ dimensions: [(String, String)]) -> CounterSeries {
        find(label, dimensions, { if case .counter(let counter) = $0 { counter } else { nil } }) {
            let counter = CounterSeries()
            return (.counter(counter), counter)
        }
    }

    private func gauge(_ label: String, _ dimensions: [(String, String)]) -> GaugeSeries {
        find(label, dimensions, { if case .gauge(let gauge) = $0 { gauge } else { nil } }) {
            let gauge = GaugeSeries()
            return (.gauge(gauge), gauge)
        }
    }

    private func histogram(_ label: String, _ dimensions: [(String, String)]) -> HistogramSeries {
        find(label, dimensions, { if case .histogram(let histogram) = $0 { histogram } else { nil } }) {
            let histogram = HistogramSeries()
            return (.histogram(histogram), histogram)
        }
    }

    // MARK: - MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(label, dimensions)
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        counter(label, dimensions)
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        gauge(label, dimensions)
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        if aggregate { histogram(label, dimensions) } else { gauge(label, dimensions) }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(label, dimensions)
    }

    package func destroyCounter(_: any CounterHandler) {}
    package func destroyFloatingPointCounter(_: any FloatingPointCounterHandler) {}
    package func destroyMeter(_: any MeterHandler) {}
    package func destroyRecorder(_: any RecorderHandler) {}
    package func destroyTimer(_: any TimerHandler) {}
}

private final class CounterSeries: CounterHandler, FloatingPointCounterHandler {
    private let total = Mutex(0.0)

    var value: Double { total.withLock { $0 } }

    func increment(by amount: Int64) { increment(by: Double(amount)) }
    func increment(by amount: Double) {
        // A counter never decreases.
        if amount > 0 { total.withLock { $0 += amount } }
    }
    func reset() { total.withLock { $0 = 0 } }
}

private final class GaugeSeries: MeterHandler, RecorderHandler {
    private let present = Mutex(0.0)

    var value: Double { present.withLock { $0 } }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { present.withLock { $0 = value } }
    func increment(by amount: Double) { present.withLock { $0 += amount } }
    func decrement(by amount: Double) { present.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }
}

private final class HistogramSeries: TimerHandler, RecorderHandler {
    /// The upper bounds of the buckets in seconds, from half a millisecond to ten seconds.
    private static let limits = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    private struct State {
        var buckets = [UInt64](repeating: 0, count: HistogramSeries.limits.count)
        var count: UInt64 = 0
        var sum = 0.0
    }

    private let state = Mutex(State())

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func record(_ value: Int64) { record(Double(value)) }
    func record(_ value: Double) {
        state.withLock { state in
            if let index = Self.limits.firstIndex(where: { value <= $0 }) { state.buckets[index] += 1 }
            state.count += 1
            state.sum += value
        }
    }

    func samples(_ labels: [MetricFamily.Label]) -> [MetricFamily.Sample] {
        let state = state.withLock { $0 }
        var samples: [MetricFamily.Sample] = []
        var below: UInt64 = 0
        for (limit, count) in zip(Self.limits, state.buckets) {
            below += count
            let label = MetricFamily.Label("le", PrometheusText.number(limit))
            samples.append(.init(Double(below), labels: labels + [label], suffix: "_bucket"))
        }
        samples.append(.init(Double(state.count), labels: labels + [.init("le", "+Inf")], suffix: "_bucket"))
        samples.append(.init(state.sum, labels: labels, suffix: "_sum"))
        samples.append(.init(Double(state.count), labels: labels, suffix: "_count"))
        return samples
    }
}
