// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import Synchronization
import WireGuardCore

// The gateway has one active key, because a WireGuard interface has one private key. Grants announce the next key and
// the time of the switch. Devices try the next key when the old key no longer answers.

extension GatewayService {
    package var serverKeys: ServerKeys { state.withLock { $0.keys } }

    /// - Throws: `.noWireGuard` if the gateway serves only the login tunnel.
    func checkWireGuard() throws(GatewayError) {
        guard settings.servesWireGuard else { throw .noWireGuard }
    }

    /// Makes and announces the next key: grants contain both, and the switch happens after the overlap in the
    /// settings.
    package func announceServerKey(_ caller: Caller) async throws(GatewayError) -> ServerKeys {
        try caller.check(.manage)
        try checkWireGuard()
        var random = random
        let next = ServerKeys.Next(
            key: PrivateKey(using: &random),
            // The key's file stores whole seconds.
            switchAt: Date(
                timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down)
                    + Double(settings.serverKeyOverlapSeconds)))
        let keys = try change { (keys) throws(GatewayError) in
            guard keys.next == nil else { throw .serverKeyRotation("a next key is already announced") }
            keys.next = next
        }
        state.withLock { $0.announcedKey = next.key.publicKey }
        try await recordKeyChange(
            record(
                .serverKeyAnnounced, "gateway", caller,
                ["key": next.key.publicKey.base64, "switchAt": next.switchAt.formatted(.iso8601)]))
        return keys
    }

    package func cancelServerKeyRotation(_ caller: Caller) async throws(GatewayError) {
        try caller.check(.manage)
        _ = try change { (keys) throws(GatewayError) in
            guard keys.next != nil else { throw .serverKeyRotation("no next key is announced") }
            keys.next = nil
        }
        try await recordKeyChange(record(.serverKeyRotationCancelled, "gateway", caller))
    }

    /// Makes the next key the active key if the time of the switch has passed and the time is certain. If this process
    /// announced the key, it measures the time since then itself, unless the clock has jumped.
    func switchServerKey(_ watch: ClockWatch) async throws(GatewayError) {
        let now = now
        let isDue = state.withLock { state in
            guard let next = state.keys.next, next.switchAt <= now else { return false }
            return watch.isCertain || watch.isSteady && state.announcedKey == next.key.publicKey
        }
        guard isDue else { return }
        let keys = try change { (keys) throws(GatewayError) in
            guard let next = keys.next, next.switchAt <= now else { return }
            keys = ServerKeys(current: next.key)
        }
        logger.notice("switched to the next server key: \(keys.current.publicKey)")
        try await recordKeyChange(
            record(.serverKeySwitched, "gateway", .gateway, ["key": keys.current.publicKey.base64]))
    }

    /// Changes the keys, on disk first, so that the same keys are in use after a restart.
    private func change(
        _ body: (inout ServerKeys) throws(GatewayError) -> Void
    ) throws(GatewayError) -> ServerKeys {
        try state.withLock { (state) throws(GatewayError) in
            var keys = state.keys
            try body(&keys)
            try keyStore.write(keys)
            state.keys = keys
            return keys
        }
    }

    private func recordKeyChange(_ audit: AuditRecord) async throws(GatewayError) {
        try await changed("gateway", try await store.append(audit, change: .serverKeys))
    }
}
