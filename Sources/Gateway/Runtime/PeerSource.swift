// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// What the runtime needs of a gateway's service.
package protocol PeerSource: Sendable {
    var settings: GatewaySettings { get }
    var serverKeys: ServerKeys { get }
    /// Returns the peers that have changed.
    /// - Parameter sequence: The last change that the caller knows. If it is `nil` or too old, the feed has all peers.
    func peers(after sequence: Int64?, _ caller: Caller) async throws(GatewayError) -> Feed<Peer>
    /// Judges a login to the login tunnel, and leases addresses.
    func logIn(_ request: LoginRequest, _ caller: Caller) async throws(GatewayError) -> LoginJudgement
    /// Whether a login has succeeded from an address in the last seven days. It does not wait.
    func isKnownLogin(_ login: String, from source: IPAddress) -> Bool
    /// The devices, users and passwords that are denied, even if the store admits them. Read it before the store.
    var denials: AccessDenials { get }
    /// Yields when there may be new changes, at once for the first time.
    func changeSignals() -> AsyncStream<Void>
    /// Adds what was counted since the last time.
    func record(_ activity: [DeviceActivity], _ caller: Caller) async throws(GatewayError)
    /// Notes what time has brought.
    func sweep(busy: [DeviceID], _ caller: Caller) async throws(GatewayError)
}

extension PeerSource {
    package var denials: AccessDenials { AccessDenials() }
}

extension GatewayService: PeerSource {}
