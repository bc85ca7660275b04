// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

// Cases of a host and a running provider that are not in the table of life-cycle cases.
extension LifecycleScene {
    /// Makes a running provider save a secret, and reads it in the next start. The host needs a store for secrets.
    package func saveSecret() async throws {
        let request = TunnelStartRequest(
            configuration: Array(#"{"name":"x"}"#.utf8), profileID: "00112233445566778899aabbccddeeff")
        try await subject.host.start(request)
        try await script.context?.keepSecret(SecretBytes([1, 2]), "key")
        #expect(try await script.context?.secret("key").bytes == [1, 2])
        try await script.context?.keepSecret(SecretBytes([3]), "key")
        await subject.host.stop(.userInitiated)
        try await subject.host.start(request)
        #expect(try await script.context?.secret("key").bytes == [3])
        await subject.host.stop(.userInitiated)
    }

    /// Starts the tunnel while the device sleeps, and makes the device fall asleep during a start. Each time the
    /// provider is notified of the sleep once it is up.
    package func startAsleep() async throws {
        let request = TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8))
        await subject.host.sleep()
        try await subject.host.start(request)
        guard await script.noted("sleep") else { return }
        subject.host.wake()
        guard await script.noted("wake") else { return }
        await subject.host.stop(.userInitiated)

        script.plan.start = .wait
        let host = subject.host
        let starting = Task { try await host.start(request) }
        guard await script.noted("waits") else { return }
        await host.sleep()
        script.release()
        try await starting.value
        guard await script.noted("sleep", count: 2) else { return }
        host.wake()
        guard await script.noted("wake", count: 2) else { return }
        #expect(script.calls.messages.filter { ["sleep", "wake"].contains($0) } == ["sleep", "wake", "sleep", "wake"])
        await host.stop(.userInitiated)
    }
}
