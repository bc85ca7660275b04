// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import WireGuardCore

/// The gateway's own WireGuard keys.
package struct ServerKeys: Equatable, Sendable {
    /// The active key.
    package var current: PrivateKey
    /// The announced key that will replace the active one, or `nil`.
    package var next: Next?

    package struct Next: Equatable, Sendable {
        package var key: PrivateKey
        /// The time of the switch.
        package var switchAt: Date

        package init(key: PrivateKey, switchAt: Date) {
            self.key = key
            self.switchAt = switchAt
        }
    }

    package init(current: PrivateKey, next: Next? = nil) {
        self.current = current
        self.next = next
    }
}

/// The keys of the login tunnel's server.
package struct LoginTunnelKeys: Equatable, Sendable {
    package var privateKey: PrivateKey
    /// The key that all clients share with the server. Without it, a client cannot try a password.
    package var presharedKey: PresharedKey

    package init(privateKey: PrivateKey, presharedKey: PresharedKey) {
        self.privateKey = privateKey
        self.presharedKey = presharedKey
    }
}

/// Stores the gateway's keys outside the database. A write is durable when its function returns.
package protocol ServerKeyStore: Sendable {
    func serverKeys() throws(GatewayError) -> ServerKeys
    /// Replaces the stored keys with these.
    func write(_ keys: ServerKeys) throws(GatewayError)
    /// The key from which the devices' pre-shared keys are derived.
    func presharedMaster() throws(GatewayError) -> PresharedKey
}
