// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import Synchronization
import WireGuardCore

// The gateway's own key is one, since an interface has one. Devices hear of the next with its predecessor's end, and try it when the
// old one answers no more.

extension GatewayService {
    package var serverKeys: ServerKeys { state.withLock { $0.keys } }

    /// - Throws: `.noWireGuard` in a gateway with the login tunnel alone.
    func checkWireGuard() throws(GatewayError) {
        guard settings.servesWireGuard else { throw .noWireGuard }
    }

    /// Makes the next key and announces it: grants name both, and the switch comes after the settings' overlap.
    package func announceServerKey(_ caller: Caller) async throws(GatewayError) -> ServerKeys {
        try caller.check(.manage)
        try checkWireGuard()
        var random = random
        let next = ServerKeys.Next(
            key: PrivateKey(using: &random),
            // To the second, which is what its file has.
            switchAt: Date(
                timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down)
                    + Double(settings.serverKeyOverlapSeconds)))
        let keys = try change { (keys) throws(GatewayError) in
            guard keys.next == nil else { throw .serverKeyRotation("a next key is announced already") }
            keys.next = next
        }
        state.withLock { $0.announcedKey = next.key.publicKey }
        try await note(
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
        try await note(record(.serverKeyRotationCancelled, "gateway", caller))
    }

    /// Makes the next key the key, where its time has come and is certain. If this process announced the key, it knows the time in
    /// between, unless the clock has jumped.
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
        logger.notice("the gateway's key is another one now: \(keys.current.publicKey)")
        try await note(
            record(.serverKeySwitched, "gateway", .gateway, ["key": keys.current.publicKey.base64]))
    }

    /// Changes the keys, on disk first: what the runtime is told of is there after a restart.
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

    private func note(_ audit: AuditRecord) async throws(GatewayError) {
        try await changed("gateway", try await store.append(audit, change: .serverKeys))
    }
}
