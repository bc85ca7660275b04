// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import WireGuardCore

/// The gateway's own WireGuard keys.
package struct ServerKeys: Equatable, Sendable {
    /// The key that is in force.
    package var current: PrivateKey
    /// The key that takes its place, once it is announced.
    package var next: Next?

    package struct Next: Equatable, Sendable {
        package var key: PrivateKey
        /// When.
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
    /// What all clients share with the server: without it nobody tries a password.
    package var presharedKey: PresharedKey

    package init(privateKey: PrivateKey, presharedKey: PresharedKey) {
        self.privateKey = privateKey
        self.presharedKey = presharedKey
    }
}

/// Where the gateway's keys are kept: outside of the database. What was written lasts when a function returns.
package protocol ServerKeyStore: Sendable {
    func serverKeys() throws(GatewayError) -> ServerKeys
    /// Replaces the keys, of which there are two for as long as one is announced.
    func write(_ keys: ServerKeys) throws(GatewayError)
    /// What the devices' pre-shared keys are made of.
    func presharedMaster() throws(GatewayError) -> PresharedKey
}
