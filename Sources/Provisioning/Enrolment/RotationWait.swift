// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The time for which a device keeps the key of a rotation that the gateway has not confirmed: a delayed request can change the key
/// while its nonce is valid.
///
/// The wait begins with the first answer of the gateway after the requests were sent, which is after the nonce was issued. It ends when
/// both the gateway's time and the device's time show that the nonce has expired. A clock that is wrong does no harm, since only
/// differences count, and a clock that jumps forward alone does not end the wait. A restart keeps the wait, which is part of the secret.
struct RotationWait: Sendable, Equatable {
    /// The nonce's lifetime, in seconds.
    var lifetimeSeconds: Int64
    /// The gateway's time at the beginning of the wait.
    var gatewayTime: Date?
    /// The device's time at the beginning of the wait.
    var deviceTime: Date?

    /// Seconds beyond the lifetime: times are kept in whole seconds, and the gateway may take a moment for a request that arrived in time.
    static let margin: Int64 = 10

    /// - Parameter lifetimeSeconds: the nonce's lifetime; by default that of Culvert's gateway.
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

    /// Records the times of an answer of the gateway that has the old key.
    /// - Returns: whether no request of the rotation can be accepted any longer.
    mutating func hasEnded(gatewayTime: Date, deviceTime: Date) -> Bool {
        // With a clock that was set back, the wait begins again.
        let gatewayStart = min(self.gatewayTime ?? gatewayTime, gatewayTime)
        let deviceStart = min(self.deviceTime ?? deviceTime, deviceTime)
        (self.gatewayTime, self.deviceTime) = (gatewayStart, deviceStart)
        let seconds = Double(lifetimeSeconds + Self.margin)
        return gatewayTime.timeIntervalSince(gatewayStart) >= seconds
            && deviceTime.timeIntervalSince(deviceStart) >= seconds
    }
}
