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

/// A store that another process changes once, just before a replacement.
private final class RacingStore: RemotePolicyStore {
    private let files: FileRemotePolicyStore
    private let other: Mutex<(@Sendable () throws -> Void)?>

    init(_ files: FileRemotePolicyStore, _ other: @escaping @Sendable () throws -> Void) {
        self.files = files
        self.other = Mutex(other)
    }

    func acceptedVersion(_ name: String) throws -> AcceptedVersion? { try files.acceptedVersion(name) }

    func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws {
        try files.setAcceptedVersion(version, name)
    }

    func envelopes(_ name: String) throws -> [[UInt8]] { try files.envelopes(name) }

    func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws { try files.setEnvelopes(envelopes, name) }

    func replaceEnvelopes(
        with envelopes: [[UInt8]], accepting version: AcceptedVersion, insteadOf previous: AcceptedVersion?,
        _ name: String
    ) throws -> Bool {
        let other = other.withLock { other in
            defer { other = nil }
            return other
        }
        try other?()
        return try files.replaceEnvelopes(with: envelopes, accepting: version, insteadOf: previous, name)
    }
}

@Suite("Sharing a store of policies", .serialized)
struct RemotePolicySharingTests {
    private static let name = "com.example.app/production"

    private let builtIn: PolicySet
    private let folder = FileManager.default.temporaryDirectory.appending(
        path: "trust-\(UInt64.random(in: 0...UInt64.max))")
    private var files: FileRemotePolicyStore { FileRemotePolicyStore(folder: folder) }

    init() throws { builtIn = try PolicySet([], unlisted: .systemTrust) }

    private func remove() { try? FileManager.default.removeItem(at: folder) }

    /// The objects of one process.
    private func process(
        _ store: any RemotePolicyStore, verifier: RemotePolicyVerifier? = nil
    ) throws -> (evaluator: TrustEvaluator, updater: RemotePolicyUpdater) {
        let evaluator = TrustEvaluator(policies: builtIn, systemTrust: FixedTrust.everything)
        let updater = RemotePolicyUpdater(
            evaluator: evaluator, verifier: try verifier ?? Publisher.verifier(), store: store)
        return (evaluator, updater)
    }

    private func code(_ updater: RemotePolicyUpdater, _ envelope: PolicyEnvelope) async -> EnvelopeError.Code? {
        do {
            _ = try await updater.apply(envelope.bytes, at: TestDate.today.date)
            return nil
        } catch { return error.code }
    }

    private func accepted(_ envelope: PolicyEnvelope) -> AcceptedVersion {
        AcceptedVersion(version: envelope.version, digest: PinHash(sha256Of: envelope.signedBytes))
    }

    @Test("An HMAC envelope is compared with the envelope that another process has accepted")
    func tightening() async throws {
        defer { remove() }
        let (_, one) = try process(files)
        let (evaluator, two) = try process(files)
        #expect(try await code(two, Publisher.envelope(Publisher.policies("five"), version: 5)) == nil)
        #expect(try await code(one, Publisher.envelope(Publisher.policies("six"), version: 6)) == nil)
        let stale = try Publisher.policies("five", unlisted: .refuse)
        #expect(try await code(two, Publisher.envelope(stale, version: 7, .hmacSHA256)) == .loosens)
        #expect(try evaluator.policies == Publisher.policies("six"))
        #expect(try files.acceptedVersion(Self.name)?.version == 6)
        let tighter = try Publisher.policies("six", unlisted: .refuse)
        #expect(try await code(two, Publisher.envelope(tighter, version: 7, .hmacSHA256)) == nil)
        #expect(try files.envelopes(Self.name).count == 2)
        let (restored, three) = try process(files)
        #expect(try await three.restore() == 7)
        #expect(restored.policies == tighter)
    }

    @Test("The comparison is repeated if another process changed the store or ended between two writes")
    func racing() async throws {
        defer { remove() }
        let six = try Publisher.envelope(Publisher.policies("six"), version: 6)
        let (files, version) = (files, accepted(six))
        let writes: [@Sendable () throws -> Void] = [
            {
                try files.setEnvelopes([six.bytes], Self.name)
                try files.setAcceptedVersion(version, Self.name)
            }, { try files.setEnvelopes([six.bytes], Self.name) },
        ]
        let stale = try Publisher.envelope(Publisher.policies("five", unlisted: .refuse), version: 7, .hmacSHA256)
        for (index, write) in writes.enumerated() {
            remove()
            #expect(
                try await code(process(files).updater, Publisher.envelope(Publisher.policies("five"), version: 5))
                    == nil)
            let (evaluator, updater) = try process(index == 0 ? RacingStore(files, write) : files)
            #expect(try await updater.restore() == 5)
            if index == 1 { try write() }
            #expect(await code(updater, stale) == .loosens)
            #expect(try evaluator.policies == Publisher.policies("six"))
            #expect(try files.acceptedVersion(Self.name) == version)
            #expect(try files.envelopes(Self.name) == [six.bytes])
        }
    }

    @Test("A late write does not replace a newer envelope")
    func lateWrites() async throws {
        defer { remove() }
        let four = try Publisher.envelope(Publisher.policies("four"), version: 4)
        let five = try Publisher.envelope(Publisher.policies("five"), version: 5)
        let six = try Publisher.envelope(Publisher.policies("six"), version: 6)
        let other = try Publisher.envelope(Publisher.policies("other"), version: 6)
        for envelope in [four, six] { #expect(await code(try process(files).updater, envelope) == nil) }

        func refusal(_ write: () throws -> Void) -> EnvelopeError.Code? {
            #expect(throws: EnvelopeError.self) { try write() }?.code
        }
        #expect(refusal { try files.setEnvelopes([five.bytes], Self.name) } == .rolledBack)
        #expect(refusal { try files.setAcceptedVersion(accepted(five), Self.name) } == .rolledBack)
        #expect(refusal { try files.setAcceptedVersion(accepted(other), Self.name) } == .equivocation)
        for previous in [nil, accepted(four)] {
            #expect(
                try !files.replaceEnvelopes(
                    with: [five.bytes], accepting: accepted(five), insteadOf: previous, Self.name))
        }
        #expect(
            refusal {
                _ = try files.replaceEnvelopes(
                    with: [five.bytes], accepting: accepted(five), insteadOf: accepted(six), Self.name)
            } == .rolledBack)
        #expect(try await process(files).updater.restore() == 6)
    }

    @Test("The publisher's envelope stays active if the key of the envelope that tightened it was removed")
    func rotatedSecret() async throws {
        defer { remove() }
        let base = try Publisher.policies("five")
        let five = try Publisher.envelope(base, version: 5)
        let six = try Publisher.envelope(Publisher.policies("five", unlisted: .refuse), version: 6, .hmacSHA256)
        for envelope in [five, six] { #expect(await code(try process(files).updater, envelope) == nil) }

        let verifier = RemotePolicyVerifier(
            appID: "com.example.app", keys: ["ed25519": try Publisher.verificationKey(.ed25519)])
        let (evaluator, updater) = try process(files, verifier: verifier)
        var error = await #expect(throws: EnvelopeError.self) { try await updater.restore() }
        #expect(error?.code == .unknownKey)
        #expect(evaluator.policies == base)
        #expect(await code(updater, five) == .rolledBack)
        #expect(try await code(updater, Publisher.envelope(Publisher.policies("seven"), version: 7)) == nil)

        // Restored older files are not such a case.
        let store = MemoryStore()
        store.state.withLock { state in
            state.envelopes = [five.bytes, six.bytes]
            state.version = AcceptedVersion(version: 8, digest: PinHash(sha256Of: [8]))
        }
        let (old, late) = try process(store, verifier: verifier)
        error = await #expect(throws: EnvelopeError.self) { try await late.restore() }
        #expect(error?.code == .rolledBack)
        #expect(old.policies == builtIn)
    }

    @Test("An HMAC envelope is refused if the envelope that it would tighten is lost")
    func lostEnvelopes() async throws {
        let store = MemoryStore()
        let five = try Publisher.envelope(Publisher.policies("five"), version: 5)
        #expect(await code(try process(store).updater, five) == nil)
        let six = try Publisher.envelope(builtIn, version: 6, .hmacSHA256)
        for (kept, expected) in [([], EnvelopeError.Code.storeFailed), ([[0x7b]], .malformed)] as [([[UInt8]], _)] {
            store.state.withLock { $0.envelopes = kept }
            #expect(await code(try process(store).updater, six) == expected)
        }
        #expect(try await code(process(store).updater, Publisher.envelope(builtIn, version: 6)) == nil)
    }
}
