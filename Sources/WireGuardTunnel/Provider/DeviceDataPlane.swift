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
    private let interface: ProbedDevice
    private let isClosing = Atomic<Bool>(false)

    /// A device that is configured and runs.
    /// - Parameter onFailure: called once when the device closes by itself.
    init(
        _ tun: any TunDevice, _ update: UAPIDeviceUpdate, environment: WireGuardEnvironment, logger: Logger,
        onFailure: @escaping @Sendable (TunnelError) -> Void
    ) throws(TunnelError) {
        interface = ProbedDevice(tun)
        var options = WireGuardDevice.Options(budget: environment.budget)
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
        device.onClose { [weak self] reason in
            guard let self, !self.isClosing.load(ordering: .acquiring) else { return }
            onFailure(TunnelError(.providerFailed, "the WireGuard device closed by itself: \(reason)"))
        }
    }

    private static func failure(_ error: WireGuardDeviceError) -> TunnelError {
        switch error.code {
        case .beyondBudget: TunnelError(.configurationInvalid, error.description, fix: "remove peers or allowed IPs")
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
                // A wall clock that was set back says nothing.
                handshakeAge: age.flatMap { $0 < 0 ? nil : .seconds($0) }, receivedBytes: peer.receivedBytes,
                sentBytes: peer.sentBytes)
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

    func drops() -> [String: UInt64] {
        var drops: [String: UInt64] = [:]
        for (cause, count) in device.statistics.drops.byCause where count > 0 { drops[cause] = count }
        return drops
    }

    var listenPort: UInt16? { device.listenPort }

    func close() async {
        isClosing.store(true, ordering: .releasing)
        let device = device
        await LoopThread.run(name: "culvert-stop") { device.close() }
    }
}
