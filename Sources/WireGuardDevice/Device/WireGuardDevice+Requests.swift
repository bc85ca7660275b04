// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import TunnelIO
public import WireGuardCore

/// Requests of a device's owner, in addition to those of the interface.
extension WireGuardDevice {
    /// Starts a handshake with a peer even if it has a session. The present session continues until the new one exists.
    ///
    /// If the previous handshake is less than 5 s ago, the new one is delayed accordingly. Without an endpoint nothing
    /// happens.
    public func requestHandshake(with key: PublicKey) {
        transport.withEngine { $0.requestHandshake(with: key, at: SystemTime.now(), wall: SystemTime.wall()) }
        lanes.wake()
    }

    /// Starts a handshake with a peer at the endpoint that it had in an earlier process. If the peer does not answer, the
    /// endpoint gets at most `attempts` initiations, 5 s apart, and the device forgets it.
    /// - Returns: false, without an effect, if the peer has an endpoint, there is no such peer, or the device is down.
    package func requestHandshake(with key: PublicKey, atFormer endpoint: Endpoint, attempts: Int) -> Bool {
        let isStarted = transport.withEngine {
            $0.requestHandshake(
                with: key, atFormer: endpoint, attempts: attempts, at: SystemTime.now(), wall: SystemTime.wall())
        }
        lanes.wake()
        return isStarted
    }

    /// Sends an IP packet of the owner through the tunnel, as if the packet had come from the interface.
    /// - Returns: `false` if no peer has the destination, or the device is down.
    @discardableResult
    public func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        let isTaken = transport.withEngine {
            $0.submit(packet, to: destination, at: SystemTime.now(), wall: SystemTime.wall())
        }
        lanes.wake()
        return isTaken
    }
}
