// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import TunnelIO
public import WireGuardCore

/// What the owner of a device asks for, beyond what comes from the interface.
extension WireGuardDevice {
    /// Begins a handshake with a peer, whatever session there is; that session goes on until there is a new one.
    ///
    /// One that comes within 5 s of the one before is put off until then. Without an endpoint nothing happens.
    public func requestHandshake(with key: PublicKey) {
        transport.withEngine { $0.requestHandshake(with: key, at: SystemTime.now(), wall: SystemTime.wall()) }
        lanes.wake()
    }

    /// Sends an IP packet of the owner's own through the tunnel, as if it had come from the interface.
    /// - Returns: false when no peer has the destination, or the device is down.
    @discardableResult
    public func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        let isTaken = transport.withEngine {
            $0.submit(packet, to: destination, at: SystemTime.now(), wall: SystemTime.wall())
        }
        lanes.wake()
        return isTaken
    }
}
