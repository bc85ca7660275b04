// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Foundation
    import Testing
    import TunnelSystem

    @testable import TunnelIO

    /// Helpers for several suites of TUN devices.
    enum TunTest {
        /// A batch that a TUN device can read into, with these packets.
        static func batch(_ packets: [[UInt8]] = [], byteCapacity: Int = 1 << 18) throws -> PacketBatch {
            let batch = try PacketBatch(packetCapacity: 128, byteCapacity: byteCapacity)
            for packet in packets { batch.append(copying: packet) }
            return batch
        }

        /// Adds 10.9.0.1/24 and fd09::1/64 to the interface, and brings it up.
        static func bringUp(_ name: String, in namespace: Namespace) throws {
            try namespace.run("ip", "address", "add", "10.9.0.1/24", "dev", name)
            try namespace.run("ip", "address", "add", "fd09::1/64", "dev", name, "nodad")
            try namespace.run("ip", "link", "set", name, "up")
        }

        /// Sends a UDP datagram from the calling thread's namespace to port 9.
        static func sendDatagram(to address: String, payload: [UInt8]) throws {
            let socket = OwnedDescriptor(socket(AF_INET, Int32(ctunnel_tun_datagram_socket), 0))
            var target = sockaddr_in()
            target.sin_family = sa_family_t(AF_INET)
            target.sin_port = UInt16(9).bigEndian
            unsafe inet_pton(AF_INET, address, &target.sin_addr)
            let sent = unsafe withUnsafeBytes(of: &target) { bytes in
                unsafe sendto(
                    socket.number, payload, payload.count, 0, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                    socklen_t(bytes.count))
            }
            #expect(sent == payload.count)
        }

        /// Whether there is an interface of this name.
        static func exists(_ name: String, in namespace: Namespace) throws -> Bool {
            try namespace.runAllowingFailure("ip", "link", "show", name).status == 0
        }

        /// The output of ip(8) for an interface: `ip -j -d link show`, or `address`.
        static func describe(_ name: String, in namespace: Namespace, _ object: String = "link") throws -> [String: Any]
        {
            let text = try namespace.run("ip", "-j", "-d", object, "show", "dev", name).output
            let list = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]]
            return try #require(list?.first { $0["ifname"] as? String == name })
        }

        /// Receives UDP packets from several devices until there are `count` in total.
        /// - Returns: The first bytes of the payloads, by device.
        static func payloads(of tuns: [LinuxTun], count: Int) throws -> [[UInt8]] {
            let end = ContinuousClock.now + Privileged.patience
            var found = tuns.map { _ in [UInt8]() }
            let batch = try batch()
            while found.reduce(0, { $0 + $1.count }) < count {
                let ready = Poll.readable(tuns.map(\.readiness), before: end)
                guard !ready.isEmpty else { throw CommandFailure(description: "only \(found) of \(count) packets") }
                for (index, tun) in tuns.enumerated() where ready.contains(tun.readiness) {
                    batch.removeAll()
                    _ = try tun.receive(into: batch)
                    for packet in 0..<batch.count {
                        let bytes = batch.copy(of: packet)
                        if bytes.count > 28, bytes[0] == 0x45, bytes[9] == 17 { found[index].append(bytes[28]) }
                    }
                }
            }
            return found
        }
    }
#endif
