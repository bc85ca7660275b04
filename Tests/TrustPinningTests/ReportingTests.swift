// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import Synchronization
import Testing
import TrustPinningTesting
import TunnelSystem

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Collects reports, or fails as often as the test requests.
private final class Collector: ReportTransport {
    struct Failure: Error {}

    let received = Recorder<(json: [UInt8], uri: String)>()
    private let failures: Mutex<Int>
    private let failing: String?

    /// - Parameter failing: The destination that fails, or `nil` for all.
    init(failures: Int = 0, from failing: String? = nil) {
        self.failures = Mutex(failures)
        self.failing = failing
    }

    func send(_ json: [UInt8], to uri: String) async throws {
        let fails = failures.withLock { left in
            guard failing == nil || failing == uri else { return false }
            left -= 1
            return left >= 0
        }
        if fails { throw Failure() }
        received.append((json, uri))
    }
}

/// Collects log messages.
struct Memory: LogHandler {
    let lines: Recorder<String>
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let pairs = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted()
        lines.append("\(event.level) \(event.message) \(pairs.joined(separator: " "))")
    }
}

@Suite("Reports and logs")
struct ReportingTests {
    private static let app = ReportingApp(
        bundleID: "com.example.app", version: "1.2", platform: "LINUX", platformVersion: "6.1", vendorID: "id")

    private func evaluator(
        _ observers: [TrustEvaluator.Observer], mode: PinningPolicy.Mode = .strict, isTrusted: Bool = true
    ) throws -> TrustEvaluator {
        let pins = [try Pin.of(TestKey(.p256, "nobody").pin), try .spare()]
        let policy = try PinningPolicy(
            pins: pins, mode: mode, expiry: PinningPolicy.Expiry(TestDate(2026, 12, 31).date))
        let set = try PolicySet([HostPolicy(.includingSubdomains("example.com"), policy)], unlisted: .systemTrust)
        let trust = isTrusted ? FixedTrust.everything : .failing(.expired)
        return TrustEvaluator(policies: set, systemTrust: trust, observers: observers)
    }

    @Test("Reports have the fields of TrustKit's format")
    func format() async throws {
        let authority = try TestAuthority()
        let collector = Collector()
        let reporter = PinFailureReporter(app: Self.app, uris: ["https://reports.example/"], transport: collector)
        _ = await (try evaluator([reporter.observer])).evaluate(
            chain: authority.whole, host: "WWW.example.com", port: 8443, at: TestDate.today.date)
        await reporter.flush()
        let sent = try #require(collector.received.elements.first)
        #expect(sent.uri == "https://reports.example/")
        guard case .object(let members) = try JSON.read(policy: sent.json) else {
            Issue.record("not an object")
            return
        }
        let pins = [try TestKey(.p256, "nobody").pin, try Pin.spare().hash.base64]
        let expected: [String: JSON] = [
            "app-bundle-id": .string("com.example.app"), "app-version": .string("1.2"),
            "app-platform": .string("LINUX"),
            "app-platform-version": .string("6.1"), "app-vendor-id": .string("id"),
            "trustkit-version": .string("culvert"),
            "date-time": .string("2026-06-01T00:00:00Z"), "hostname": .string("WWW.example.com"),
            "port": .integer(8443),
            "noted-hostname": .string("example.com"), "include-subdomains": .bool(true),
            "enforce-pinning": .bool(true),
            "validated-certificate-chain": .array(
                [authority.leaf, authority.intermediate, authority.root].map { .string($0.pem) }),
            "known-pins": .array(pins.map { .string("pin-sha256=\"\($0)\"") }), "validation-result": .integer(1),
            "known-pins-expiration-date": .string("2026-12-31"),
        ]
        #expect(Dictionary(uniqueKeysWithValues: members.map { ($0.name, $0.value) }) == expected)
    }

    @Test("Mismatches in each mode and untrusted chains of pinned hosts are reported")
    func reported() async throws {
        let authority = try TestAuthority()
        for (mode, isTrusted, result, enforces) in [
            (PinningPolicy.Mode.strict, true, PinFailureReport.Result.noMatchingPin, true),
            (.audit, true, .noMatchingPin, false), (.permissive, true, .noMatchingPin, false),
            (.strict, false, .invalidCertificateChain, true), (.audit, false, .invalidCertificateChain, false),
        ] {
            let heard = Recorder<TrustEvaluation>()
            let evaluator = try evaluator(
                [{ if let evaluation = $0.evaluation { heard.append(evaluation) } }], mode: mode, isTrusted: isTrusted)
            _ = await evaluator.evaluate(authority.whole)
            _ = await evaluator.evaluate(authority.whole, host: "other.test")
            let reports = heard.elements.map { PinFailureReport($0) }
            #expect(reports.count == 2)
            #expect(reports[0]?.result == result)
            #expect(reports[0]?.enforcesPinning == enforces)
            #expect(reports[1] == nil)
        }
        let heard = Recorder<TrustEvaluation>()
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
        let good = TrustEvaluator(
            policies: try .only(policy), systemTrust: FixedTrust.everything,
            observers: [{ if let evaluation = $0.evaluation { heard.append(evaluation) } }])
        _ = await good.evaluate(authority.whole)
        #expect(heard.elements.map { PinFailureReport($0) } == [nil])
    }

    @Test("The same failure is reported once a day")
    func rate() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        let collector = Collector()
        let reporter = PinFailureReporter(app: Self.app, uris: ["a", "b"], transport: collector)
        let evaluator = try evaluator([reporter.observer])
        for _ in 0..<5 { _ = await evaluator.evaluate(authority.whole) }
        _ = await evaluator.evaluate(other.whole)
        _ = await evaluator.evaluate(authority.whole, host: "other.example.com")
        await reporter.flush()
        #expect(reporter.counts == PinFailureReporter.Counts(sent: 3, repeated: 4))
        #expect(collector.received.elements.count == 6)
        _ = await evaluator.evaluate(authority.whole, on: TestDate(2026, 6, 2))
        await reporter.flush()
        #expect(reporter.counts.sent == 4)
    }

    @Test("A failed report is sent at most three times, and reports beyond the queue limit are dropped")
    func failures() async throws {
        let authority = try TestAuthority()
        let collector = Collector(failures: 2)
        let reporter = PinFailureReporter(app: Self.app, uris: ["a"], transport: collector)
        _ = await (try evaluator([reporter.observer])).evaluate(authority.whole)
        for _ in 0..<3 { await reporter.flush() }
        #expect(reporter.counts == PinFailureReporter.Counts(sent: 1))

        let never = PinFailureReporter(app: Self.app, uris: ["a"], transport: Collector(failures: .max), queueLimit: 4)
        let evaluator = try evaluator([never.observer])
        for index in 0..<9 { _ = await evaluator.evaluate(authority.whole, host: "h\(index).example.com") }
        for _ in 0..<4 { await never.flush() }
        #expect(never.counts.dropped == 9)
        #expect(never.counts.sent == 0)
    }

    @Test("An undelivered report does not delay the next one, and each destination receives a report once")
    func dropped() async throws {
        let authority = try TestAuthority()
        // The second destination fails at first; the first one still receives the report only once.
        let collector = Collector(failures: 1, from: "b")
        let reporter = PinFailureReporter(app: Self.app, uris: ["a", "b"], transport: collector)
        let evaluator = try evaluator([reporter.observer])
        _ = await evaluator.evaluate(authority.whole)
        for _ in 0..<2 { await reporter.flush() }
        #expect(collector.received.elements.map(\.uri) == ["a", "b"])

        let failing = Collector(failures: 3)
        let later = PinFailureReporter(app: Self.app, uris: ["a"], transport: failing)
        let other = try self.evaluator([later.observer])
        _ = await other.evaluate(authority.whole)
        for _ in 0..<3 { await later.flush() }
        #expect(later.counts == PinFailureReporter.Counts(dropped: 1))
        _ = await other.evaluate(authority.whole)
        await later.flush()
        #expect(later.counts == PinFailureReporter.Counts(sent: 1, dropped: 1))

        // A destination that never responds does not delay or repeat reports to other destinations.
        for uris in [["good", "dead"], ["dead", "good"]] {
            let collector = Collector(failures: .max, from: "dead")
            let reporter = PinFailureReporter(app: Self.app, uris: uris, transport: collector)
            let evaluator = try self.evaluator([reporter.observer])
            for _ in 0..<2 {
                _ = await evaluator.evaluate(authority.whole)
                for _ in 0..<3 { await reporter.flush() }
            }
            #expect(collector.received.elements.map(\.uri) == ["good"])
            #expect(reporter.counts == PinFailureReporter.Counts(repeated: 1, dropped: 1))
        }

        let full = PinFailureReporter(app: Self.app, uris: ["a"], transport: Collector(), queueLimit: 0)
        let last = try self.evaluator([full.observer])
        for _ in 0..<2 { _ = await last.evaluate(authority.whole) }
        #expect(full.counts == PinFailureReporter.Counts(dropped: 2))
    }

    @Test("Logs contain the policy's pattern and never the host")
    func logs() async throws {
        let authority = try TestAuthority()
        let lines = Recorder<String>()
        let logger = Logger(label: "test") { _ in Memory(lines: lines) }
        for (mode, isTrusted) in [
            (PinningPolicy.Mode.strict, true), (.permissive, true), (.audit, true), (.permissive, false),
        ] {
            let evaluator = try evaluator([TrustEvaluator.logging(to: logger)], mode: mode, isTrusted: isTrusted)
            for host in ["private-name.example.com", "secret-site.test", "not a host"] {
                _ = await evaluator.evaluate(authority.whole, host: host)
            }
        }
        let text = lines.elements.joined(separator: "\n")
        #expect(text.contains("policy=**.example.com"))
        #expect(text.contains("policy=unlisted"))
        #expect(text.contains("failure=expired"))
        #expect(text.contains("error trust pinning: pinMismatch"))
        #expect(text.contains("warning trust pinning: pinMismatchPermissive"))
        // The key is logged for a listed host, so that it can be compared with the policy, and not for other hosts.
        #expect(text.contains("presented=\(try PinHash(authority.leaf.pin))"))
        for secret in ["private-name", "secret-site", "not a host", "www.example.com", "Example Intermediate"] {
            #expect(!text.contains(secret), "\(secret)")
        }
    }
}
