// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import Synchronization
import TunnelIO
import WireGuardCore
import WireGuardDevice

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A `WireGuardDevice` on the tunnel's interface.
final class DeviceDataPlane: DataPlane {
    private let device: WireGuardDevice
    private let interface: TapTun
    private let isClosing = Atomic<Bool>(false)

    /// Makes a device, configures it and starts it.
    /// - Parameter onFailure: called once if the device closes by itself.
    init(
        _ tun: any TunDevice, _ update: UAPIDeviceUpdate, environment: WireGuardEnvironment, logger: Logger,
        onFailure: @escaping @Sendable (TunnelError) -> Void
    ) throws(TunnelError) {
        interface = TapTun(tun, filter: true)
        let allowedIPs = update.peers.reduce(0) { $0 + $1.allowedIPs.count }
        var options = WireGuardDevice.Options(
            budget: environment.budget?.withRoom(forAllowedIPs: allowedIPs), dataPath: environment.dataPath)
        options.random = environment.random
        options.log = { level, message in
            logger.log(level: level == .error ? .error : .debug, "\(message)")
        }
        do throws(WireGuardDeviceError) {
            device = try WireGuardDevice(tun: interface, network: environment.network, options: options)
        } catch {
            tun.close()
            throw Self.failure(error)
        }
        do throws(WireGuardDeviceError) {
            try device.apply(update)
            try device.start()
        } catch {
            device.close()
            throw Self.failure(error)
        }
        device.onRoaming { [interface] in interface.reportEvent() }
        if let path = environment.managementSocket { serve(path, logger) }
        device.onClose { [weak self] reason in
            guard let self, !self.isClosing.load(ordering: .acquiring) else { return }
            onFailure(TunnelError(.providerFailed, "the WireGuard device closed by itself: \(reason)"))
        }
    }

    /// Serves the device to `wg`. If the socket cannot be opened, the tunnel runs without it. If the socket's file is
    /// removed, the tunnel continues, because leak protection must not depend on a file.
    private func serve(_ path: String, _ logger: Logger) {
        let rules = ManagementRules(endsWithSocket: false) { update in
            // The mark makes the tunnel's own packets bypass its routes and pass its firewall.
            guard update.fwMark != nil else { return update }
            if update.fwMark != 0 { logger.warning("wg: the mark is the tunnel's own, and stays") }
            var update = update
            update.fwMark = nil
            return update
        } applied: { [weak device, interface] update in
            logger.notice("wg has changed \(update.summary)")
            interface.reportEvent()
            // Packets may wait for the key, and no other event reports it.
            guard case .set = update.privateKey, let device else { return }
            for peer in device.peers where peer.endpoint != nil { device.requestHandshake(with: peer.publicKey) }
        }
        do throws(WireGuardDeviceError) {
            try device.serveUAPI(on: ManagementSocket(path: path), by: rules)
        } catch {
            logger.warning("cannot serve the tunnel to wg: \(error)")
        }
    }

    private static func failure(_ error: WireGuardDeviceError) -> TunnelError {
        switch error.code {
        case .beyondBudget:
            TunnelError(
                .configurationInvalid, error.description,
                fix:
                    "remove peers or allowed IPs, or give the tunnel more memory ('culvert up --memory MIB:PEERS'), and start it again"
            )
        case .closed: TunnelError(.closed, error.description)
        default: TunnelError(.providerFailed, error.description)
        }
    }

    func peers() -> [DataPlanePeer] {
        let now = Date().timeIntervalSince1970
        return device.peers.map { peer in
            let age = peer.lastHandshake.map { now - Double($0.seconds) - Double($0.nanoseconds) / 1e9 }
            return DataPlanePeer(
                publicKey: peer.publicKey, endpoint: peer.endpoint,
                // A negative age means that the wall clock was set back, so the age is unknown.
                handshakeAge: age.flatMap { $0 < 0 ? nil : .seconds($0) }, receivedBytes: peer.receivedBytes,
                sentBytes: peer.sentBytes, persistentKeepalive: peer.persistentKeepalive)
        }
    }

    func apply(_ update: UAPIDeviceUpdate) throws(TunnelError) {
        do throws(WireGuardDeviceError) { try device.apply(update) } catch { throw Self.failure(error) }
    }

    func rebind() throws(TunnelError) {
        do throws(WireGuardDeviceError) { try device.rebind() } catch { throw Self.failure(error) }
    }

    func requestHandshake(with key: PublicKey) { device.requestHandshake(with: key) }

    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        device.submit(packet, to: destination)
    }

    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?) { interface.setFilter(filter) }

    func onNextPacket(_ handler: (@Sendable () -> Void)?) { interface.onNextPacket(handler) }

    var hasDelivered: Bool { interface.hasDelivered }

    func forgetPackets() { interface.forgetPackets() }

    func drops() -> [String: UInt64] { device.statistics.drops.counted }

    var listenPort: UInt16? { device.listenPort }

    var publicKey: PublicKey? { device.publicKey }

    func close() async {
        isClosing.store(true, ordering: .releasing)
        let device = device
        await LoopThread.run(name: "culvert-stop") { device.close() }
    }
}

extension UAPIDeviceUpdate {
    /// A description of the event, without secrets.
    fileprivate var summary: String {
        var parts: [String] = []
        switch privateKey {
        case .unchanged: break
        case .set, .clear: parts.append("the private key")
        }
        if listenPort != nil { parts.append("the port") }
        if replacePeers { parts.append("all peers") } else if !peers.isEmpty { parts.append("\(peers.count) peers") }
        return parts.isEmpty ? "nothing" : parts.joined(separator: ", ")
    }
}
