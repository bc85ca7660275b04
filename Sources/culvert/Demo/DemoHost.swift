// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// One end of the demonstration: a WireGuard device with its in-memory TUN and the small host behind it, which answers
/// pings, and sends and checks bulk transfers.
final class DemoHost: Sendable {
    /// What the host has seen.
    struct State {
        /// When the first echo request arrived since this was cleared, on ``LaneClock``.
        var requestArrival: Int64?
        var reply: EchoReply?
        var receiver = BulkReceiver()
        var acknowledgement = BulkAcknowledgement(run: 0, received: 0, next: 0)
    }

    struct EchoReply: Equatable {
        var identifier: UInt16
        var sequence: UInt16
        var arrival: Int64
    }

    let name: String
    let privateKey: PrivateKey
    let publicKey: PublicKey
    let v4: IPAddress
    let v6: IPAddress
    let tun: MemoryTun
    let device: WireGuardDevice
    let state = Monitor(State())
    /// What bulk packets to this host look like.
    private let incoming: BulkPacket
    private let acknowledge: @Sendable (BulkAcknowledgement) -> [UInt8]

    static let mtu = 1420

    /// An end with new keys. `number` is the last part of both addresses, `peerNumber` that of the other end.
    init(name: String, number: UInt8, peerNumber: UInt8) throws(WireGuardDeviceError) {
        var generator = SystemRandomNumberGenerator()
        let key = PrivateKey(using: &generator)
        let own = DemoHost.addresses(number)
        let other = DemoHost.addresses(peerNumber)
        self.name = name
        privateKey = key
        publicKey = key.publicKey
        (v4, v6) = (own.v4, own.v6)
        incoming = BulkPacket(from: other.v4, to: own.v4, mtu: DemoHost.mtu)
        acknowledge = { acknowledgement in
            PacketBuilder.udp(
                from: own.v4, port: BulkPacket.acknowledgementPort, to: other.v4,
                port: BulkPacket.acknowledgementPort, payload: acknowledgement.payload)
        }
        do throws(TunnelIOError) {
            tun = try MemoryTun(name: name, mtu: DemoHost.mtu, queueCapacity: 2048, byteCapacity: 4 << 20)
        } catch {
            throw WireGuardDeviceError(error)
        }
        device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
        unsafe tun.onDeliver = { [weak self] packet in unsafe self?.take(packet) }
    }

    static func addresses(_ number: UInt8) -> (v4: IPAddress, v6: IPAddress) {
        (.v4(10, 77, 0, number), .v6(0xfd77_0000_0000_0000, UInt64(number)))
    }

    /// What makes the other end's device know this one as a peer.
    func peerUpdate(endpointPort: UInt16?, presharedKey: PresharedKey? = nil) -> UAPIPeerUpdate {
        var update = UAPIPeerUpdate(publicKey: publicKey)
        update.presharedKey = presharedKey.map { .set($0) } ?? .clear
        update.endpoint = endpointPort.map { .loopback(port: $0) }
        update.replaceAllowedIPs = true
        update.allowedIPs = [v4, v6].map { .add(IPPrefix(host: $0)) }
        return update
    }

    // MARK: - Packets out of the tunnel, on the lane's thread

    private func take(_ packet: UnsafeRawBufferPointer) {
        guard let first = unsafe packet.first else { return }
        let (headerByteCount, number) =
            first >> 4 == 4
            ? (20, unsafe packet.count > 9 ? packet[9] : 0) : (40, unsafe packet.count > 6 ? packet[6] : 0)
        guard packet.count >= headerByteCount + 8 else { return }
        switch number {
        case PacketBuilder.IPProtocol.udp: unsafe takeDatagram(packet, headerByteCount)
        case PacketBuilder.IPProtocol.icmp, PacketBuilder.IPProtocol.icmpv6: unsafe takeEcho(packet, headerByteCount)
        default: break
        }
    }

    private func takeEcho(_ packet: UnsafeRawBufferPointer, _ headerByteCount: Int) {
        let now = LaneClock.now()
        let type = unsafe packet[headerByteCount]
        if let reply = unsafe ICMPResponder().reply(to: packet) {
            state.update { state in
                guard state.requestArrival == nil else { return false }
                state.requestArrival = now
                return true
            }
            tun.inject(reply)
        } else if type == 0 || type == 129 {
            let reply = unsafe EchoReply(
                identifier: word(packet, headerByteCount + 4), sequence: word(packet, headerByteCount + 6),
                arrival: now)
            state.update { state in
                state.reply = reply
                return true
            }
        }
    }

    private func takeDatagram(_ packet: UnsafeRawBufferPointer, _ headerByteCount: Int) {
        switch unsafe word(packet, headerByteCount + 2) {
        case BulkPacket.dataPort:
            guard let reading = unsafe incoming.read(packet) else { return }
            let due = state.withValue { $0.receiver.take(reading, byteCount: packet.count) }
            if let due { tun.inject(acknowledge(due)) }
        case BulkPacket.acknowledgementPort:
            let payload = unsafe UnsafeRawBufferPointer(rebasing: packet[(headerByteCount + 8)...])
            guard let acknowledgement = unsafe BulkAcknowledgement(payload: payload) else { return }
            state.update { state in
                state.acknowledgement = acknowledgement
                return true
            }
        default: break
        }
    }

    private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt16 {
        unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self).bigEndian
    }
}
