// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

/// Says hello to a server that is not there.
private actor HelloTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {}

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        for _ in 0..<5 {
            do { try await context.clock.sleep(for: .seconds(1)) } catch { throw TunnelError(.stopped, "given up") }
        }
        throw TunnelError(.serverUnreachable, "the server does not respond")
    }

    func stop(_ reason: StopReason) async {}
}

// The article PacketTunnelTesting
@Suite("Samples of clocks", .timeLimit(.minutes(1)))
struct ClockSamples {
    @Test("A start gives up in time that the test makes")
    func hello() async {
        let clock = VirtualClock()
        let host = MemoryHost<HelloTunnel>(clock: clock)
        async let _: Void = {
            while !Task.isCancelled {
                await clock.waitForSleepers(2)  // The host, until the start's deadline, and the provider.
                clock.advance(by: .seconds(1))
            }
        }()
        let error = await #expect(throws: TunnelError.self) { try await host.start(HelloTunnel.Configuration()) }
        #expect(error?.code == .serverUnreachable)
    }
}
