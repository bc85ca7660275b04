// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The time for which a device keeps the key of a rotation that the gateway has not confirmed, because a delayed
/// request can change the key while its nonce is valid.
///
/// The wait starts with the gateway's first answer after the requests were sent, so it starts after the nonce was
/// issued. It ends when both the gateway's clock and the device's clock show that the nonce has expired. A wrong clock
/// causes no harm, because only time differences count, and a forward jump of one clock does not end the wait. The wait
/// is part of the secret, so it survives a restart.
struct RotationWait: Sendable, Equatable {
    /// The nonce's lifetime, in seconds.
    var lifetimeSeconds: Int64
    /// The gateway's time at the start of the wait.
    var gatewayTime: Date?
    /// The device's time at the start of the wait.
    var deviceTime: Date?

    /// Additional seconds after the lifetime: times are stored in whole seconds, and the gateway may take a moment to
    /// process a request that arrived in time.
    static let margin: Int64 = 10

    /// - Parameter lifetimeSeconds: The nonce's lifetime; the default is that of Culvert's gateway.
    init(lifetimeSeconds: Int64 = 60) { self.lifetimeSeconds = lifetimeSeconds }

    private init(lifetimeSeconds: Int64, gatewayTime: Date?, deviceTime: Date?) {
        self.lifetimeSeconds = lifetimeSeconds
        self.gatewayTime = gatewayTime
        self.deviceTime = deviceTime
    }

    static let message = CompleteMessage<RotationWait>(
        RotationWait.init(lifetimeSeconds:gatewayTime:deviceTime:),
        TypedField("lifetimeSeconds", \.lifetimeSeconds, .seconds(from: 1)),
        TypedField("gatewayTime", \.gatewayTime, .optional(.time)),
        TypedField("deviceTime", \.deviceTime, .optional(.time)))

    /// Records the times of an answer of a gateway that has the old key.
    /// - Returns: Whether the gateway can no longer accept a request of the rotation.
    mutating func hasEnded(gatewayTime: Date, deviceTime: Date) -> Bool {
        // If a clock was set back, restart the wait of that clock.
        let gatewayStart = min(self.gatewayTime ?? gatewayTime, gatewayTime)
        let deviceStart = min(self.deviceTime ?? deviceTime, deviceTime)
        (self.gatewayTime, self.deviceTime) = (gatewayStart, deviceStart)
        let seconds = Double(lifetimeSeconds + Self.margin)
        return gatewayTime.timeIntervalSince(gatewayStart) >= seconds
            && deviceTime.timeIntervalSince(deviceStart) >= seconds
    }
}
