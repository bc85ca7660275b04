// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CredentialTunnel
import FoundationEssentials
import TunnelSystem
import WireGuardCore

/// The tickets of a gateway's login tunnel. Their keys are in the gateway's folder, so that tickets survive a restart.
package final class LoginTickets: Sendable {
    package let sealer: TicketSealer
    private let save: @Sendable (TicketSealer.Keys) throws(GatewayDirectoryError) -> Void

    package init(
        _ keys: TicketSealer.Keys, clock: GatewayClock,
        save: @escaping @Sendable (TicketSealer.Keys) throws(GatewayDirectoryError) -> Void
    ) {
        sealer = TicketSealer(keys) { Int64(clock.now().timeIntervalSince1970) }
        self.save = save
    }

    /// Replaces the key if it is a day old, after the new one was saved. Do not call it concurrently.
    package func rotate() throws(GatewayDirectoryError) {
        var random = SystemRandomNumberGenerator()
        guard let keys = sealer.replacement(using: &random) else { return }
        try save(keys)
        sealer.keys = keys
    }
}

extension GatewayDirectory {
    /// The tickets of the login tunnel, with new keys if the folder has none or damaged ones. Without the former keys,
    /// users log in with their passwords; a backup therefore does not contain them.
    package func loginTickets(
        clock: GatewayClock = .system, random: RandomSource = RandomSource()
    ) throws(GatewayDirectoryError) -> LoginTickets {
        let keys: TicketSealer.Keys
        if let stored = try storedTicketKeys() {
            keys = stored
        } else {
            var random = random
            keys = TicketSealer.Keys(
                current: .init(PresharedKey(using: &random), madeAt: Int64(clock.now().timeIntervalSince1970)))
            try write(keys)
        }
        let tickets = LoginTickets(keys, clock: clock) { (keys) throws(GatewayDirectoryError) in try self.write(keys) }
        // On a read-only file system, the present keys stay. The runtime tries again, and logs the failure.
        try? tickets.rotate()
        return tickets
    }

    /// The file has one line for each key, the current one first: the key, and the time at which it was made.
    private func write(_ keys: TicketSealer.Keys) throws(GatewayDirectoryError) {
        let lines = [keys.current, keys.previous].compactMap(\.self).map { "\($0.key.exportedBase64) \($0.madeAt)" }
        try write(text: lines.joined(separator: "\n"), Name.loginTicketKeys)
    }

    private func storedTicketKeys() throws(GatewayDirectoryError) -> TicketSealer.Keys? {
        guard try files.read(Name.loginTicketKeys) != nil else { return nil }
        let lines = try text(Name.loginTicketKeys).split(separator: "\n")
        let keys = lines.compactMap { line -> TicketSealer.Key? in
            let fields = line.split(separator: " ")
            guard fields.count == 2, let key = PresharedKey(base64: fields[0]), !key.isZero,
                let time = Int64(fields[1])
            else { return nil }
            return TicketSealer.Key(key, madeAt: time)
        }
        guard (1...2).contains(keys.count), keys.count == lines.count else { return nil }
        return TicketSealer.Keys(current: keys[0], previous: keys.dropFirst().first)
    }
}
