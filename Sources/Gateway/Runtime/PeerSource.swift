// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The part of a gateway's service that the runtime uses.
package protocol PeerSource: Sendable {
    var settings: GatewaySettings { get }
    var serverKeys: ServerKeys { get }
    /// Returns the peers that have changed.
    /// - Parameter sequence: The last change that the caller knows. If it is `nil` or too old, the feed has all peers.
    func peers(after sequence: Int64?, _ caller: Caller) async throws(GatewayError) -> Feed<Peer>
    /// Authenticates a login to the login tunnel, and leases addresses.
    func logIn(_ request: LoginRequest, _ caller: Caller) async throws(GatewayError) -> LoginJudgement
    /// Leases addresses for a login with a ticket, whose password needs no check.
    /// - Parameter isOwnSession: Whether the device's current session is the one in which the ticket was issued.
    /// - Returns: `nil` if the ticket is void.
    func resume(
        _ resumption: LoginResumption, _ request: LoginRequest, isOwnSession: Bool, _ caller: Caller
    ) async throws(GatewayError) -> LoginJudgement?
    /// Whether a login has succeeded from an address in the last seven days. It does not wait.
    func isKnownLogin(_ login: String, from source: IPAddress) -> Bool
    /// The devices, users and passwords that are denied, even if the store admits them. Read it before the store.
    var denials: AccessDenials { get }
    /// Returns a stream that yields once at the start, and then when there may be new changes.
    func changeSignals() -> AsyncStream<Void>
    /// Adds the traffic counted since the last call.
    func record(_ activity: [DeviceActivity], _ caller: Caller) async throws(GatewayError)
    /// Processes expired devices, leases and keys.
    func sweep(busy: [DeviceID], _ caller: Caller) async throws(GatewayError)
}

extension PeerSource {
    package var denials: AccessDenials { AccessDenials() }
    package func resume(
        _ resumption: LoginResumption, _ request: LoginRequest, isOwnSession: Bool, _ caller: Caller
    ) async throws(GatewayError) -> LoginJudgement? { nil }
}

extension GatewayService: PeerSource {}
