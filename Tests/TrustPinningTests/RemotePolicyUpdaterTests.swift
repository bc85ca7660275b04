// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing
import TrustPinningTesting

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Updating policies")
struct RemotePolicyUpdaterTests {
    private let builtIn: PolicySet
    private let evaluator: TrustEvaluator
    private let store = MemoryStore()

    init() throws {
        builtIn = try Publisher.policies("built in")
        evaluator = TrustEvaluator(policies: builtIn, systemTrust: FixedTrust.everything)
    }

    private func updater(_ store: (any RemotePolicyStore)? = nil, lowestVersion: Int64 = 1) throws
        -> RemotePolicyUpdater
    {
        RemotePolicyUpdater(
            evaluator: evaluator, verifier: try Publisher.verifier(lowestVersion: lowestVersion),
            store: store ?? self.store)
    }

    private func code(_ updater: RemotePolicyUpdater, _ bytes: [UInt8], on day: TestDate = .today) async
        -> EnvelopeError.Code?
    {
        do {
            _ = try await updater.apply(bytes, at: day.date)
            return nil
        } catch { return error.code }
    }

    @Test("A newer envelope is applied, and an unchanged one is reported")
    func applying() async throws {
        let updater = try updater()
        let one = try Publisher.envelope(Publisher.policies("one"), version: 1).bytes
        let three = try Publisher.envelope(Publisher.policies("three"), version: 3).bytes
        #expect(try await updater.apply(one, at: TestDate.today.date) == .applied(version: 1))
        #expect(try evaluator.policies == Publisher.policies("one"))
        #expect(try await updater.apply(one, at: TestDate.today.date) == .unchanged)
        #expect(try await updater.apply(three, at: TestDate.today.date) == .applied(version: 3))
        #expect(try evaluator.policies == Publisher.policies("three"))
    }

    @Test("Older versions, and another envelope of the same version, are refused after a restart too")
    func rollback() async throws {
        let five = try Publisher.envelope(Publisher.policies("five"), version: 5).bytes
        let four = try Publisher.envelope(Publisher.policies("four"), version: 4).bytes
        let otherFive = try Publisher.envelope(Publisher.policies("other"), version: 5).bytes
        let first = try updater()
        #expect(await code(first, five) == nil)
        // The app restarts with its built-in policies and the store.
        for updater in [first, try updater()] {
            #expect(await code(updater, four) == .rolledBack)
            #expect(await code(updater, otherFive) == .equivocation)
            #expect(await code(updater, five) == nil)
            #expect(try evaluator.policies == Publisher.policies("five"))
        }
    }

    @Test("An updater refuses older versions if its store is removed or restored while it runs")
    func vanishedStore() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "trust-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = FileRemotePolicyStore(folder: folder)
        let updater = try updater(files)
        let four = try Publisher.envelope(Publisher.policies("four"), version: 4)
        let five = try Publisher.envelope(Publisher.policies("five"), version: 5).bytes
        #expect(await code(updater, five) == nil)
        try FileManager.default.removeItem(at: folder)
        #expect(await code(updater, four.bytes) == .rolledBack)
        #expect(try await updater.restore() == 5)
        let other = try Publisher.envelope(Publisher.policies("other"), version: 5).bytes
        #expect(await code(updater, other) == .equivocation)
        #expect(try evaluator.policies == Publisher.policies("five"))

        // An older copy of the folder.
        try files.setEnvelopes([four.bytes], "com.example.app/production")
        try files.setAcceptedVersion(
            AcceptedVersion(version: 4, digest: PinHash(sha256Of: four.signedBytes)), "com.example.app/production")
        let error = await #expect(throws: EnvelopeError.self) { try await updater.restore() }
        #expect(error?.code == .rolledBack)
        #expect(await code(updater, four.bytes) == .rolledBack)
        #expect(try evaluator.policies == Publisher.policies("five"))

        // The envelope in effect is stored again, and a newer one is accepted.
        #expect(try await updater.apply(five, at: TestDate.today.date) == .applied(version: 5))
        #expect(try files.acceptedVersion("com.example.app/production")?.version == 5)
        #expect(await code(updater, try Publisher.envelope(Publisher.policies("six"), version: 6).bytes) == nil)
    }

    @Test("An invalid update changes nothing")
    func badUpdates() async throws {
        let updater = try updater()
        let good = try Publisher.envelope(Publisher.policies("good"), version: 2)
        #expect(await code(updater, good.bytes) == nil)
        let next = try Publisher.envelope(Publisher.policies("next"), version: 3)
        let kept = store.state.withLock { ($0.version, $0.envelopes) }
        for (bytes, expected) in try badUpdates(between: good, and: next) {
            #expect(await code(updater, bytes) == expected)
            #expect(try evaluator.policies == Publisher.policies("good"))
            let now = store.state.withLock { ($0.version, $0.envelopes) }
            #expect(now == kept)
        }
        #expect(await code(updater, next.bytes) == nil)
    }

    /// A separate function, since the compiler cannot optimise the test with this code in it.
    private func badUpdates(
        between good: PolicyEnvelope, and next: PolicyEnvelope
    ) throws -> [([UInt8], EnvelopeError.Code)] {
        [
            ([], .malformed), (good.payload, .malformed), (Array(next.bytes.dropLast(9)), .malformed),
            (try next.changed(version: 4).bytes, .badSignature),
            (try Publisher.envelope(Publisher.policies("x"), version: 3, appID: "other").bytes, .wrongApp),
            (
                try Publisher.envelope(Publisher.policies("x"), version: 3, environment: .development).bytes,
                .wrongEnvironment
            ),
            (try Publisher.envelope(Publisher.policies("x"), version: 1).bytes, .rolledBack),
            (try Publisher.envelope(Publisher.policies("x"), version: 3, issued: TestDate(2026, 5, 1)).bytes, .expired),
            (
                try Publisher.envelope(Publisher.policies("x"), version: 3, issued: TestDate(2026, 7, 1)).bytes,
                .notYetIssued
            ),
        ]
    }

    @Test("Updates with HMAC may only tighten policies")
    func tightening() async throws {
        let updater = try updater()
        func hmac(_ policies: PolicySet, _ version: Int64) throws -> [UInt8] {
            try Publisher.envelope(policies, version: version, .hmacSHA256).bytes
        }
        #expect(try await code(updater, hmac(Publisher.policies("other pins"), 1)) == .loosens)
        #expect(try await code(updater, hmac(PolicySet([], unlisted: .systemTrust), 1)) == .loosens)
        #expect(evaluator.policies == builtIn)
        let tighter = try Publisher.policies("built in", unlisted: .refuse)
        #expect(try await code(updater, hmac(tighter, 1)) == nil)
        #expect(evaluator.policies == tighter)
        // Undoing a tightening is a loosening.
        #expect(try await code(updater, hmac(builtIn, 2)) == .loosens)
        // A signature with a key that only the publisher has may loosen policies.
        #expect(try await code(updater, Publisher.envelope(Publisher.policies("new pins"), version: 2).bytes) == nil)
        #expect(try await code(updater, hmac(Publisher.policies("new pins", unlisted: .refuse), 3)) == nil)
        // After a restart, the second envelope tightens the first again.
        let fresh = TrustEvaluator(policies: builtIn, systemTrust: FixedTrust.everything)
        let restored = RemotePolicyUpdater(evaluator: fresh, verifier: try Publisher.verifier(), store: store)
        #expect(try await restored.restore() == 3)
        #expect(try fresh.policies == Publisher.policies("new pins", unlisted: .refuse))
    }

    @Test("An HMAC envelope tightens the last active policies, even if the app did not restore them")
    func tighteningStored() async throws {
        let open = try PolicySet([], unlisted: .systemTrust)
        let strict = try Publisher.policies("strict", unlisted: .refuse)
        let shared = try Publisher.envelope(open, version: 6, .hmacSHA256).bytes
        #expect(await code(try updater(), try Publisher.envelope(strict, version: 5).bytes) == nil)

        // A restart of an app with loose built-in policies that calls update before restore.
        let loose = TrustEvaluator(policies: open, systemTrust: FixedTrust.everything)
        func restarted() throws -> RemotePolicyUpdater {
            RemotePolicyUpdater(evaluator: loose, verifier: try Publisher.verifier(), store: store)
        }
        store.state.withLock { $0.failsToReadEnvelopes = true }
        #expect(await code(try restarted(), shared) == .storeFailed)
        store.state.withLock { $0.failsToReadEnvelopes = false }
        #expect(await code(try restarted(), shared) == .loosens)
        #expect(loose.policies == strict)
        #expect(try store.acceptedVersion("")?.version == 5)
        let tighter = try PolicySet([], unlisted: .refuse)
        let next = try restarted()
        #expect(await code(next, try Publisher.envelope(tighter, version: 6, .hmacSHA256).bytes) == nil)
        #expect(store.state.withLock { $0.envelopes.count } == 2)
        // Envelopes that cannot be restored because the app no longer has their key do not block newer ones.
        store.state.withLock { $0.envelopes = [] }
        #expect(await code(try restarted(), try Publisher.envelope(strict, version: 7).bytes) == nil)
    }

    @Test("Expired envelopes are restored, but not below the accepted or the minimum version")
    func restoring() async throws {
        let fresh = try updater()
        #expect(try await fresh.restore() == nil)
        #expect(evaluator.policies == builtIn)
        let two = try Publisher.envelope(Publisher.policies("two"), version: 2)
        #expect(await code(fresh, two.bytes) == nil)
        evaluator.update(builtIn)
        #expect(try await updater().restore() == 2)
        #expect(try evaluator.policies == Publisher.policies("two"))

        // An older file is restored.
        evaluator.update(builtIn)
        let one = try Publisher.envelope(Publisher.policies("one"), version: 1)
        store.state.withLock { $0.envelopes = [one.bytes] }
        var error = await #expect(throws: EnvelopeError.self) { try await updater().restore() }
        #expect(error?.code == .rolledBack)
        // The file is removed or damaged.
        store.state.withLock { $0.envelopes = [] }
        error = await #expect(throws: EnvelopeError.self) { try await updater().restore() }
        #expect(error?.code == .storeFailed)
        store.state.withLock { $0.envelopes = [Array(two.bytes.dropLast(20))] }
        error = await #expect(throws: EnvelopeError.self) { try await updater().restore() }
        #expect(error?.code == .malformed)
        store.state.withLock { $0.envelopes = [two.bytes] }
        error = await #expect(throws: EnvelopeError.self) { try await updater(lowestVersion: 3).restore() }
        #expect(error?.code == .rolledBack)
        #expect(evaluator.policies == builtIn)
    }

    @Test("No envelope is accepted without a working store, and a restart completes an interrupted write")
    func failingStore() async throws {
        let updater = try updater()
        let one = try Publisher.envelope(Publisher.policies("one"), version: 1).bytes
        store.state.withLock { $0.failsToRead = true }
        #expect(await code(updater, one) == .storeFailed)
        store.state.withLock {
            $0.failsToRead = false
            $0.failsToWriteEnvelopes = true
        }
        #expect(await code(updater, one) == .storeFailed)
        store.state.withLock {
            $0.failsToWriteEnvelopes = false
            $0.failsToWriteVersions = true
        }
        #expect(await code(updater, one) == .storeFailed)
        #expect(evaluator.policies == builtIn)
        store.state.withLock { $0.failsToWriteVersions = false }
        // The envelope was stored, but its version was not.
        #expect(try await self.updater().restore() == 1)
        #expect(store.state.withLock { $0.version?.version } == 1)
        #expect(try evaluator.policies == Publisher.policies("one"))
    }

    @Test("An updater fetches through its transport")
    func fetching() async throws {
        struct Transport: EnvelopeTransport {
            let result: Result<[UInt8], MemoryStore.Failure>

            func fetch() async throws -> [UInt8] { try result.get() }
        }
        let bytes = try Publisher.envelope(Publisher.policies("one")).bytes
        let good = RemotePolicyUpdater(
            evaluator: evaluator, verifier: try Publisher.verifier(), store: store,
            transport: Transport(result: .success(bytes)))
        #expect(try await good.update(at: TestDate.today.date) == .applied(version: 1))
        for transport in [Transport(result: .failure(MemoryStore.Failure())), nil] {
            let bad = RemotePolicyUpdater(
                evaluator: evaluator, verifier: try Publisher.verifier(), store: store, transport: transport)
            let error = await #expect(throws: EnvelopeError.self) { try await bad.update(at: TestDate.today.date) }
            #expect(error?.code == .fetchFailed)
        }
        #expect(try evaluator.policies == Publisher.policies("one"))
    }

    @Test("The newest issue time is a lower bound of the time for expiry")
    func issueTimes() async throws {
        let authority = try TestAuthority()
        let expiry = PinningPolicy.Expiry(TestDate(2026, 5, 15).date, afterwards: .refuse)
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()], expiry: expiry)
        let set = try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse)
        #expect(await code(try updater(), try Publisher.envelope(set).bytes) == nil)
        let decision = await evaluator.evaluate(authority.whole, on: TestDate(2026, 5, 1))
        #expect(decision.reason == .pinSetExpiredRefused)
    }

    @Test(
        "An issue time with HMAC expires pins only if the policy refuses the host afterwards")
    func sharedIssueTimes() async throws {
        let authority = try TestAuthority()
        for (afterwards, expected) in [
            (PinningPolicy.Expiry.Afterwards.systemTrust, TrustDecision.Reason.pinningFailed),
            (.refuse, .pinSetExpiredRefused),
        ] {
            let expiry = PinningPolicy.Expiry(TestDate(2026, 5, 15).date, afterwards: afterwards)
            let pins = [try Pin.of(TestKey(.p256, "nobody").pin), try Pin.spare()]
            let set = try PolicySet(
                [HostPolicy(.exact("www.example.com"), PinningPolicy(pins: pins, expiry: expiry))], unlisted: .refuse)
            let evaluator = TrustEvaluator(policies: set, systemTrust: FixedTrust.everything)
            let updater = RemotePolicyUpdater(
                evaluator: evaluator, verifier: try Publisher.verifier(), store: MemoryStore())
            #expect(await code(updater, try Publisher.envelope(set, .hmacSHA256).bytes) == nil)
            #expect(await evaluator.evaluate(authority.whole, on: TestDate(2026, 5, 1)).reason == expected)
        }
    }

    @Test("The file store stores versions and envelopes, and refuses damaged files")
    func files() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "trust-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = FileRemotePolicyStore(folder: folder)
        #expect(try files.acceptedVersion("a/b") == nil)
        #expect(try files.envelopes("a/b").isEmpty)
        let updater = try updater(files)
        #expect(try await code(updater, Publisher.envelope(Publisher.policies("one"), version: 4).bytes) == nil)
        #expect(
            try await code(
                updater, Publisher.envelope(Publisher.policies("one", unlisted: .refuse), version: 5, .hmacSHA256).bytes
            )
                == nil)
        evaluator.update(builtIn)
        #expect(try await self.updater(FileRemotePolicyStore(folder: folder)).restore() == 5)
        #expect(try evaluator.policies == Publisher.policies("one", unlisted: .refuse))

        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(names.count == 2)
        for name in names {
            let file = folder.appending(path: name)
            let whole = try Data(contentsOf: file)
            for length in 0..<min(whole.count, 200) {
                try whole.prefix(length).write(to: file)
                await #expect(throws: EnvelopeError.self, "\(name) cut to \(length)") {
                    try await self.updater(files).restore()
                }
            }
            try whole.write(to: file)
        }
        #expect(try await self.updater(files).restore() == 5)
    }

    @Test("The file store creates private files, leaves no others, and never lowers versions")
    func fileModes() throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "trust-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let inner = folder.appending(path: "deep/deeper")
        let files = FileRemotePolicyStore(folder: inner)
        let digest = PinHash(sha256Of: [1])
        for version: Int64 in [1, 2, 2, 7] {
            try files.setAcceptedVersion(AcceptedVersion(version: version, digest: digest), "app/production")
            try files.setEnvelopes([[1, 2, 3], []], "app/production")
        }
        let error = #expect(throws: EnvelopeError.self) {
            try files.setAcceptedVersion(AcceptedVersion(version: 6, digest: digest), "app/production")
        }
        #expect(error?.code == .rolledBack)
        #expect(try files.acceptedVersion("app/production")?.version == 7)
        #expect(try files.envelopes("app/production") == [[1, 2, 3], []])
        let names = try FileManager.default.contentsOfDirectory(atPath: inner.path)
        #expect(names.sorted() == ["trust-app_2fproduction.envelopes", "trust-app_2fproduction.version"])
        for path in [folder.path, inner.path] + names.map({ inner.appending(path: $0).path }) {
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode.map { $0 & 0o077 } == 0, "\(path)")
        }
        // The next write removes the temporary file of a killed process.
        let abandoned = inner.appending(path: ".trust-app_2fproduction.version.0123456789abcdef")
        try Data([1]).write(to: abandoned)
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: -120)], ofItemAtPath: abandoned.path)
        try files.setAcceptedVersion(AcceptedVersion(version: 8, digest: digest), "app/production")
        #expect(!FileManager.default.fileExists(atPath: abandoned.path))
        // Each name has its own pair of files, with any bytes in the name.
        try files.setAcceptedVersion(AcceptedVersion(version: 1, digest: digest), "\u{c}2\u{a}b")
        #expect(try files.acceptedVersion("\u{ab}") == nil)
    }

    @Test("A version that cannot be read is an error, not a missing version")
    func unreadableFiles() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "trust-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = FileRemotePolicyStore(folder: folder)
        // A folder instead of the file exists, but cannot be read, even as root.
        try FileManager.default.createDirectory(
            at: folder.appending(path: "trust-com_2eexample_2eapp_2fproduction.version"),
            withIntermediateDirectories: true)
        let bytes = try Publisher.envelope(Publisher.policies("one")).bytes
        #expect(await code(try updater(files), bytes) == .storeFailed)
        // The same applies to a dangling or circular link.
        let other = FileManager.default.temporaryDirectory.appending(
            path: "trust-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: other) }
        try FileManager.default.createSymbolicLink(at: other, withDestinationURL: other)
        #expect(await code(try updater(FileRemotePolicyStore(folder: other)), bytes) == .storeFailed)
        #expect(evaluator.policies == builtIn)
    }
}
