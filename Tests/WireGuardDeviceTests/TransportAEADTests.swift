// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import WireGuardCore

@testable import WireGuardDevice

@Suite("The choice of the implementation of ChaCha20-Poly1305")
struct TransportAEADTests {
    private static let reasons: [TransportAEADError] = [
        .processor, .notInstalled, .notLoadable, .otherVersion, .notReady, .wrongAnswers,
    ]

    /// A library that cannot be used, so that the linked implementation seals and opens.
    private static let refusing = unsafe TransportLibrary(
        seal: { _, _, _, _, _, _, _ in false }, open: { _, _, _, _, _, _, _ in -1 })

    @Test("Each reason for which the library is not used has a remedy, which names the version that is accepted")
    func remedies() {
        for reason in Self.reasons {
            #expect(!"\(reason)".isEmpty && reason.fix.hasSuffix("use auto or boringssl"), "\(reason)")
        }
        for reason in [TransportAEADError.notInstalled, .notLoadable, .otherVersion] {
            #expect(reason.fix == "install libipsec-mb1 1.3 (Debian 12), or use auto or boringssl")
        }
    }

    @Test(
        "ipsec-mb throws the reason, and auto reports a reason other than a missing library or processor",
        arguments: reasons)
    func rejection(_ reason: TransportAEADError) throws {
        func load() throws(TransportAEADError) -> TransportLibrary { throw reason }
        #expect(throws: reason) { _ = try TransportAEAD.evaluate(.ipsecMB, load: load) }
        let selection = try TransportAEAD.evaluate(.auto, load: load)
        #expect(selection.library == nil)
        let isExpected = [.processor, .notInstalled].contains(reason)
        #expect(selection.rejection == (isExpected ? nil : reason))
        let boringSSL = try TransportAEAD.evaluate(.boringssl, load: load)
        #expect(boringSSL.library == nil && boringSSL.rejection == nil)
    }

    @Test("A library that computes wrong answers is not used, and auto reports it")
    func wrongAnswers() throws {
        func load() throws(TransportAEADError) -> TransportLibrary { Self.refusing }
        let selection = try TransportAEAD.evaluate(.auto, load: load)
        #expect(selection.library == nil && selection.rejection == .wrongAnswers)
        #expect(throws: TransportAEADError.wrongAnswers) { _ = try TransportAEAD.evaluate(.ipsecMB, load: load) }
    }

    @Test("The choice auto uses the library exactly if this machine can load it")
    func machine() throws {
        let selection = try TransportAEAD.evaluate(.auto)
        do throws(TransportAEADError) {
            _ = try TransportAEAD.loadIPsecMB()
            #expect(selection.library != nil && selection.rejection == nil)
        } catch {
            #expect(selection.library == nil)
        }
    }

    @Test("The choice boringssl ends the use of a selected library")
    func reset() async {
        // In a separate process, because other tests select a library too.
        await #expect(processExitsWith: .success) {
            TransportLibrary.current = TransportAEADTests.refusing
            #expect(TransportAEAD.name == "ipsec-mb")
            try TransportAEAD.select(.boringssl)
            #expect(TransportAEAD.name == TransportLibrary.linkedName && TransportAEAD.rejection == nil)
            #expect(TransportAEAD.summary == "ChaCha20-Poly1305 by \(TransportLibrary.linkedName)")
        }
    }

    @Test("The text for people has the reason for which auto does not use the library")
    func summary() {
        #expect(
            TransportAEAD.summary("boringssl", TransportAEADError.notLoadable.description)
                == "ChaCha20-Poly1305 by boringssl (ipsec-mb needs libIPSec_MB.so.1, which cannot be loaded)")
    }
}
