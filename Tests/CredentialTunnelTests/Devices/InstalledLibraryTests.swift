// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO

@testable import CredentialTunnel
@testable import WireGuardCore

@Suite("The login tunnel and a selected library", .timeLimit(.minutes(1)))
struct InstalledLibraryTests {
    @Test(
        "Both ends of a login tunnel seal and open with the library that --aead has selected",
        .enabled(if: TransportLibrary.linkedName == "boringssl", "CryptoKit takes no library"))
    func isUsed() async throws {
        let library = unsafe TransportLibrary(seal: countingSeal, open: countingOpen)
        try #require(library.givesKnownAnswers())
        // Sessions that other tests begin during this one use the library too. It gives correct answers.
        TransportLibrary.current = library
        defer { TransportLibrary.current = nil }
        let (changes, internet) = (Changes(), MemoryInternet())
        let server = try LoginServer(on: internet, changes: changes)
        let client = try LoginClient(on: internet, at: 0xc000_020a, changes: changes)
        client.logIn()
        guard case .established? = await client.event() else {
            Issue.record("\(client.events)")
            return
        }
        try client.device.attach(client.tun)
        let (sealed, opened) = (Calls.sealed.load(ordering: .relaxed), Calls.opened.load(ordering: .relaxed))
        #expect(await client.passes(from: .v4(10, 7, 0, 2)))
        // A packet and its answer.
        #expect(Calls.sealed.load(ordering: .relaxed) >= sealed + 2)
        #expect(Calls.opened.load(ordering: .relaxed) >= opened + 2)
        client.device.close()
        await server.running.stop()
    }
}

/// The calls with the header of a login tunnel's datagram.
private enum Calls {
    static let sealed = Atomic<Int>(0)
    static let opened = Atomic<Int>(0)
}

private func countingSeal(
    key: UnsafeRawPointer?, nonce: UnsafeRawPointer?, source: UnsafeRawPointer?, byteCount: Int,
    authenticated: UnsafeRawPointer?, authenticatedByteCount: Int, destination: UnsafeMutableRawPointer?
) -> Bool {
    guard let key = unsafe key, let nonce = unsafe nonce, let destination = unsafe destination else { return false }
    if authenticatedByteCount == Header.sealedLength { Calls.sealed.add(1, ordering: .relaxed) }
    unsafe CryptoBackEnd.seal(
        key: Bytes32(loadingFrom: key), nonce: ChaChaNonce(loadingFrom: nonce),
        plaintext: UnsafeRawBufferPointer(start: source, count: byteCount),
        authenticating: UnsafeRawBufferPointer(start: authenticated, count: authenticatedByteCount), into: destination)
    return true
}

private func countingOpen(
    key: UnsafeRawPointer?, nonce: UnsafeRawPointer?, source: UnsafeRawPointer?, byteCount: Int,
    authenticated: UnsafeRawPointer?, authenticatedByteCount: Int, destination: UnsafeMutableRawPointer?
) -> CInt {
    guard let key = unsafe key, let nonce = unsafe nonce, let destination = unsafe destination else { return -1 }
    if authenticatedByteCount == Header.sealedLength { Calls.opened.add(1, ordering: .relaxed) }
    let isAuthentic = unsafe CryptoBackEnd.open(
        key: Bytes32(loadingFrom: key), nonce: ChaChaNonce(loadingFrom: nonce),
        sealed: UnsafeRawBufferPointer(start: source, count: byteCount + ChaChaPoly.tagByteCount),
        authenticating: UnsafeRawBufferPointer(start: authenticated, count: authenticatedByteCount), into: destination)
    if !isAuthentic { unsafe destination.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount) }
    return isAuthentic ? 1 : 0
}
