// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Security
import Synchronization
import Testing
import TrustPinning
import TrustPinningTesting

@testable import TrustPinningFoundation

@Suite("Client identities of Apple's platforms")
struct PlatformIdentityTests {
    @Test(
        "Client identities are read from PKCS#12",
        arguments: [
            (IdentityFixtures.modern, "secret"), (IdentityFixtures.legacy, "secret"),
            (IdentityFixtures.clear, nil),
        ])
    func bundles(text: String, passphrase: String?) throws {
        let identity = try ClientIdentity(pkcs12: IdentityFixtures.bytes(text), passphrase: passphrase)
        #expect(identity.certificates.count == 2)
        #expect(identity.validity == TestDate(2026, 1, 1).date..<TestDate(2027, 1, 1).date)
        #expect(identity.intermediates.isEmpty)
    }

    @Test("A wrong passphrase, and invalid or incomplete bundles, are refused")
    func broken() {
        for (text, passphrase, error) in [
            (IdentityFixtures.modern, "wrong", ClientIdentityError.unreadableBundle),
            ("AAAA", "secret", .unreadableBundle), (IdentityFixtures.withoutKey, "secret", .noKey),
            (IdentityFixtures.withoutCertificate, "secret", .noCertificate),
        ] {
            #expect(throws: error) {
                try ClientIdentity(pkcs12: IdentityFixtures.bytes(text), passphrase: passphrase)
            }
        }
    }

    @Test("Client identities are found in the keychain by reference, with the given chain")
    func keychain() throws {
        let bundled = try TrustScene.identity()
        let attributes: NSDictionary = [kSecValueRef: bundled.identity, kSecReturnPersistentRef: NSNumber(true)]
        var result: CFTypeRef?
        let status = unsafe SecItemAdd(attributes, &result)
        #expect(status == errSecSuccess)
        let reference = try #require(result as? Data)
        let authority = try TestAuthority("Clients")
        let identity = try ClientIdentity(
            persistentReference: reference, chain: [authority.intermediate.der, authority.root.der])
        #expect(identity.certificates == [bundled.certificates[0], authority.intermediate.der, authority.root.der])
        // The root is not sent, since the server has it.
        #expect(identity.credential.standInShownChain == [bundled.certificates[0], authority.intermediate.der])

        StandInKeychain.fail(reference: reference, with: errSecInteractionNotAllowed)
        #expect(throws: ClientIdentityError.keychain(status: errSecInteractionNotAllowed)) {
            try ClientIdentity(persistentReference: reference)
        }
        StandInKeychain.fail(reference: reference, with: nil)
        #expect(throws: ClientIdentityError.notInKeychain) {
            try ClientIdentity(persistentReference: Data([1, 2, 3]))
        }
    }

    @Test("Client identities are found in the keychain by the tag of their key")
    func tag() throws {
        let tag = "com.example.client.\(UUID().uuidString)"
        let (first, second) = (try TrustScene.identity(), Data("\(tag).other".utf8))
        for (identity, tag) in [(first, Data(tag.utf8)), (first, second)] {
            let attributes: NSDictionary = [
                kSecValueRef: identity.identity, kSecAttrApplicationTag: NSData(data: tag),
            ]
            let status = SecItemAdd(attributes, nil)
            #expect(status == errSecSuccess)
        }
        let authority = try TestAuthority("Clients")
        let identity = try ClientIdentity(keychainTag: tag, chain: [authority.intermediate.der])
        #expect(identity.certificates == [first.certificates[0], authority.intermediate.der])
        #expect(throws: ClientIdentityError.notInKeychain) { try ClientIdentity(keychainTag: tag + "x") }
    }

    @Test("Client identities are loaded once, again after a failure, and reported before they expire")
    func store() async throws {
        let events = Recorded<ClientIdentityEvent>()
        let loads = Mutex(0)
        let date = Mutex(TestDate.today.date)
        let identities = ClientIdentities(now: { date.withLock { $0 } }, onEvent: { events.append($0) })
        let hosts = [try HostPattern("www.example.com")]
        identities.setLoader(for: hosts) { () throws(ClientIdentityError) in
            let count = loads.withLock { count in
                count += 1
                return count
            }
            guard count > 1 else { throw .keychain(status: errSecInteractionNotAllowed) }
            return try ClientIdentity(pkcs12: IdentityFixtures.bytes(IdentityFixtures.modern), passphrase: "secret")
        }
        let host = try HostName("www.example.com")
        for _ in 0..<3 { _ = await identities.identity(requestedBy: host, for: nil) }
        #expect(loads.withLock { $0 } == 2)
        #expect(
            events.elements == [
                .unloadable(hosts: hosts, .keychain(status: errSecInteractionNotAllowed)), .missing(host: host),
                .used(host: host), .used(host: host),
            ])
        date.withLock { $0 = TestDate(2026, 12, 20).date }
        for _ in 0..<2 { _ = await identities.identity(requestedBy: host, for: nil) }
        let soon = ClientIdentityEvent.renewalRequired(hosts: hosts, end: TestDate(2027, 1, 1).date)
        #expect(events.elements.filter { $0 == soon }.count == 1)
        date.withLock { $0 = TestDate(2027, 1, 2).date }
        #expect(await identities.identity(requestedBy: host, for: nil) == nil)
        #expect(events.elements.last == .missing(host: host))
    }
}
