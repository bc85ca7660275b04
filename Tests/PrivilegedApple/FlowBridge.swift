// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkExtension
    import Synchronization
    import TunnelIO

    /// Does the work of a device's system between its network stack and a packet flow, with a TUN interface of a namespace:
    /// it applies settings, and forwards packets in both directions on a separate thread.
    final class FlowBridge: Sendable {
        private let namespace: Namespace
        private let tun: LinuxTun
        private let flow: StandInFlow
        private let isEnded = Atomic<Bool>(false)
        let name: String

        init(_ flow: StandInFlow, in namespace: Namespace) throws {
            (self.flow, self.namespace) = (flow, namespace)
            tun = try namespace.perform { try LinuxTun(name: "utun7", mtu: 1_420) }
            name = try tun.currentName()
            let tun = tun
            flow.setWriteHandler { packet in
                guard let batch = try? PacketBatch(packetCapacity: 1, byteCapacity: 1 << 16) else { return }
                batch.append(copying: Array(packet))
                _ = try? tun.send(batch)
            }
            Thread.detachNewThread { self.carry() }
        }

        /// Packets of the interface into the flow.
        private func carry() {
            guard let batch = try? PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18) else { return }
            while !isEnded.load(ordering: .acquiring) {
                var item = pollfd(fd: tun.readiness, events: Int16(POLLIN), revents: 0)
                _ = unsafe poll(&item, 1, 50)
                batch.removeAll()
                guard let count = try? tun.receive(into: batch), count > 0 else { continue }
                flow.route((0..<count).map { Data(batch.copy(of: $0)) })
            }
        }

        /// Applies settings as the system does: addresses, MTU, routes.
        func apply(_ settings: NEPacketTunnelNetworkSettings) throws {
            let mtu = settings.mtu.map { "\($0)" } ?? "\(1_500 - (settings.tunnelOverheadBytes?.intValue ?? 0))"
            try namespace.run("ip", "link", "set", name, "up", "mtu", mtu)
            let v4 = settings.ipv4Settings
            for (address, mask) in zip(v4?.addresses ?? [], v4?.subnetMasks ?? []) {
                try namespace.run(
                    "ip", "address", "add", "\(address)/\(Self.length(mask))", "dev", name, "noprefixroute")
            }
            for route in v4?.includedRoutes ?? [] {
                let prefix = "\(route.destinationAddress)/\(Self.length(route.destinationSubnetMask))"
                try namespace.run("ip", "route", "replace", prefix, "dev", name)
            }
            let v6 = settings.ipv6Settings
            for (address, length) in zip(v6?.addresses ?? [], v6?.networkPrefixLengths ?? []) {
                try namespace.run(
                    "ip", "address", "add", "\(address)/\(length)", "dev", name, "noprefixroute", "nodad")
            }
            for route in v6?.includedRoutes ?? [] {
                let prefix = "\(route.destinationAddress)/\(route.destinationNetworkPrefixLength)"
                try namespace.run("ip", "-6", "route", "replace", prefix, "dev", name)
            }
        }

        private static func length(_ mask: String) -> Int {
            mask.split(separator: ".").reduce(0) { $0 + (UInt8($1)?.nonzeroBitCount ?? 0) }
        }

        /// Ends the bridge and removes the interface.
        func end() {
            isEnded.store(true, ordering: .releasing)
            flow.setWriteHandler(nil)
            tun.close()
        }
    }

    /// UDP sockets of a namespace.
    struct NamespaceNetwork: DatagramNetwork {
        let namespace: Namespace

        func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            let result = try? namespace.perform {
                Result { () throws(TunnelIOError) in try SystemDatagramNetwork().bind(binding, count: 1) }
            }
            guard let result else { throw TunnelIOError(.unsupported("another network namespace")) }
            return try result.get()
        }
    }
#endif
