// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Security
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Secrets in the keychain")
struct KeychainTests {
    private let service = "test.\(UUID().uuidString)"

    @Test("Secrets are kept, changed, listed and forgotten, each profile's for itself")
    func store() async throws {
        let store = KeychainSecretStore(service: service)
        try await store.write(SecretBytes([1, 2]), "key", of: "a")
        try await store.write(SecretBytes([3]), "psk", of: "a")
        try await store.write(SecretBytes([]), "key", of: "b")
        #expect(try await store.read("key", of: "a").bytes == [1, 2])
        #expect(try await store.read("key", of: "b").bytes == [])
        try await store.write(SecretBytes([9]), "key", of: "a")
        #expect(try await store.read("key", of: "a").bytes == [9])
        #expect(try await store.names(of: "a") == ["key", "psk"])
        try await store.remove("psk", of: "a")
        try await store.remove("psk", of: "a")
        #expect(try await store.names(of: "a") == ["key"])
        try await store.removeAll(of: "a")
        #expect(try await store.names(of: "a") == [])
        #expect(try await store.names(of: "b") == ["key"])
        await #expect {
            _ = try await store.read("key", of: "a")
        } throws: {
            ($0 as? TunnelError)?.code == .secretUnavailable
        }
    }

    @Test("An item keeps its reference when it changes, and the reference finds it")
    func references() throws {
        let items = KeychainItems(service: service, accessGroup: "TEAM.example")
        let reference = try items.write([1], "a", label: "one")
        #expect(try items.write([2], "a", label: "two") == reference)
        #expect(try KeychainItems.read(reference: reference) == [2])
        #expect(try items.write([3], "b", label: "three") != reference)
        try items.remove("a")
        #expect(try KeychainItems.read(reference: reference) == nil)
        // Another group's items are not seen.
        #expect(try KeychainItems(service: service, accessGroup: "OTHER").read("b") == nil)
    }

    @Test("A keychain error contains the reason", arguments: [errSecInteractionNotAllowed, errSecMissingEntitlement])
    func failures(_ status: OSStatus) async throws {
        let store = KeychainSecretStore(service: service)
        StandInKeychain.fail(service, with: status)
        await #expect {
            try await store.write(SecretBytes([1]), "key", of: "a")
        } throws: {
            let error = $0 as? TunnelError
            return error?.code == .storage && error?.message.contains("\(status)") == true
                && error?.fix.isEmpty == false
        }
    }
}
