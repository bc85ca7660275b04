// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelSystem

    @testable import TunnelIO

    @Suite("Building a Linux TUN device", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(5)))
    struct TunBuilderTests {
        @Test("Every option is what ip(8) then shows")
        func everything() throws {
            let namespace = try Namespace()
            var builder = TunBuilder(name: "cv0")
            builder.mtu = 1380
            builder.txQueueLength = 777
            builder.isMultiQueue = true
            builder.isPersistent = true
            builder.owner = 1234
            builder.group = 4321
            builder.isUp = true
            builder.addresses = try [
                InterfaceAddress("10.9.0.1/24"), InterfaceAddress("10.8.0.1 peer 10.8.0.2/32"),
                InterfaceAddress("fd09::1/64"),
            ]
            let tun = try namespace.perform { [builder] in try builder.build() }
            let link = try TunTest.describe("cv0", in: namespace)
            #expect(link["mtu"] as? Int == 1380)
            #expect(link["txqlen"] as? Int == 777)
            #expect((link["flags"] as? [String])?.contains("UP") == true)
            let information = try #require(link["linkinfo"] as? [String: Any])
            #expect(information["info_kind"] as? String == "tun")
            let data = try #require(information["info_data"] as? [String: Any])
            #expect(data["type"] as? String == "tun")
            #expect(data["persist"] as? Bool == true)
            #expect(data["multi_queue"] as? Bool == true)
            #expect(data["pi"] as? Bool == false)
            let addresses = try #require(
                TunTest.describe("cv0", in: namespace, "address")["addr_info"] as? [[String: Any]])
            func has(_ local: String, _ length: Int, peer: String? = nil) -> Bool {
                addresses.contains {
                    $0["local"] as? String == local && $0["prefixlen"] as? Int == length
                        && $0["address"] as? String == peer
                }
            }
            #expect(has("10.9.0.1", 24))
            #expect(has("10.8.0.1", 32, peer: "10.8.0.2"))
            #expect(has("fd09::1", 64))
            let attributes = try tun.attributes()
            #expect(attributes.owner == 1234 && attributes.group == 4321)
            #expect(attributes.isPersistent && attributes.isMultiQueue && attributes.queueCount == 1)
            #expect(try Set(tun.addresses()).isSuperset(of: builder.addresses))
            #expect(try tun.txQueueLength() == 777)
            #expect(try tun.isRunning())
            // `ip netns exec` mounts sysfs again, so that it shows the namespace's own interfaces.
            for (file, value) in [("owner", "1234"), ("group", "4321"), ("tx_queue_len", "777")] {
                let text = try namespace.run("cat", "/sys/class/net/cv0/\(file)").output
                #expect(text.trimmingCharacters(in: .whitespacesAndNewlines) == value)
            }
            tun.close()
            #expect(try TunTest.exists("cv0", in: namespace), "a persistent interface stays")
        }

        @Test("A persistent interface inherits only what was requested")
        func attachAgain() throws {
            let namespace = try Namespace()
            var builder = TunBuilder(name: "cv0")
            builder.isPersistent = true
            builder.isUp = true
            builder.mtu = 1300
            builder.txQueueLength = 9
            builder.addresses = try [InterfaceAddress("10.9.0.1/24"), InterfaceAddress("fd09::1/64")]
            let first = try namespace.perform { [builder] in try builder.build() }
            first.close()
            var second = TunBuilder(name: "cv0")
            second.addresses = try [InterfaceAddress("10.9.0.7/24"), InterfaceAddress("fd09::1/64")]
            let tun = try namespace.perform { [second] in try second.build() }
            #expect(try tun.currentLinkState() == LinkState(isUp: false, mtu: 1500))
            #expect(try tun.txQueueLength() == 500)
            #expect(try Set(tun.addresses().filter { !$0.address.isLinkLocal }) == Set(second.addresses))
            #expect(try !tun.attributes().isPersistent)
            tun.close()
            #expect(try !TunTest.exists("cv0", in: namespace))
        }

        @Test("An interface's owner attaches without privileges, if there is nothing to change")
        func ownerWithoutPrivileges() throws {
            let namespace = try Namespace()
            var builder = TunBuilder(name: "cv0")
            builder.isPersistent = true
            builder.owner = geteuid()
            builder.mtu = 1380
            builder.isUp = true
            builder.addresses = try [InterfaceAddress("10.9.0.1/24"), InterfaceAddress("fd09::1/64")]
            try namespace.perform { [builder] in try builder.build() }.close()
            // Capabilities belong to a thread, and this thread ends with its work.
            let tun = try namespace.perform { [builder] in
                try #require(ctunnel_keep_capabilities(0) == 0)
                return try builder.build()
            }
            #expect(try tun.currentLinkState() == LinkState(isUp: true, mtu: 1380))
            tun.close()
            builder.mtu = 1400
            let error = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { [builder] in
                    try #require(ctunnel_keep_capabilities(0) == 0)
                    return try builder.build()
                }
            }
            #expect(error?.errno == EPERM)
            #expect(try TunTest.exists("cv0", in: namespace))
        }

        @Test("The system picks a free number, or a whole name")
        func names() throws {
            let namespace = try Namespace()
            let tuns = try namespace.perform {
                try [TunBuilder(name: "cv%d"), TunBuilder(name: "cv%d"), TunBuilder()].map { try $0.build() }
            }
            #expect(try tuns.map { try $0.currentName() } == ["cv0", "cv1", "tun0"])
        }

        @Test("Errors are reported before any change, and a failure leaves nothing")
        func failures() throws {
            let namespace = try Namespace()
            var builder = TunBuilder(name: "cv0")
            builder.mtu = 1
            builder.owner = .max
            let invalid = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { [builder] in try builder.build() }
            }
            #expect("\(try #require(invalid))".contains("1 must be from 68"))
            #expect(try !TunTest.exists("cv0", in: namespace))
            builder = TunBuilder(name: "cv0")
            builder.isPersistent = true
            // The multicast group of all IPv6 hosts cannot be the other end.
            builder.addresses = [InterfaceAddress(host: .v6(0xff02 << 48, 1))]
            let refused = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { [builder] in try builder.build() }
            }
            #expect(refused?.errno == EADDRNOTAVAIL || refused?.errno == EINVAL)
            #expect("\(try #require(refused))".contains("ff02::1/128"))
            #expect(try !TunTest.exists("cv0", in: namespace))
        }

        @Test("An interface with one queue is refused for several, and the reverse")
        func queueMismatch() throws {
            let namespace = try Namespace()
            for isMultiQueue in [false, true] {
                var builder = TunBuilder(name: isMultiQueue ? "cv1" : "cv0")
                builder.isPersistent = true
                builder.isMultiQueue = isMultiQueue
                try namespace.perform { [builder] in try builder.build() }.close()
                builder.isMultiQueue = !isMultiQueue
                let error = #expect(throws: TunnelIOError.self) {
                    _ = try namespace.perform { [builder] in try builder.build() }
                }
                #expect("\(try #require(error))".contains(isMultiQueue ? "several queues" : "one queue"))
            }
        }

        @Test(
            "With packet information, packets of both families flow",
            arguments: [OffloadOptions.none, OffloadOptions()])
        func packetInformation(_ offload: OffloadOptions) throws {
            let namespace = try Namespace()
            var builder = TunBuilder(name: "cv0")
            builder.hasPacketInformation = true
            builder.offload = offload
            builder.mtu = 65_535
            let tun = try namespace.perform { [builder] in try builder.build() }
            #expect(tun.framing.length == (offload == .none ? 4 : 14))
            #expect(try tun.attributes().hasPacketInformation)
            try TunTest.bringUp("cv0", in: namespace)
            try EchoPump(tun).during {
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "-s", "60000", "10.9.0.2")
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "fd09::2")
            }
            #expect(try tun.send(TunTest.batch([[0xff, 1, 2]])) == TunSendResult(sent: 0, dropped: 1))
            #expect(tun.statistics == TunStatistics())
        }

        @Test("A descriptor reports the header in front of its packets", arguments: [false, true], [false, true])
        func detection(_ hasVirtioHeader: Bool, _ hasPacketInformation: Bool) throws {
            let framing = TunFraming(hasVirtioHeader: hasVirtioHeader, hasPacketInformation: hasPacketInformation)
            let namespace = try Namespace()
            let tun = try namespace.perform {
                try LinuxTun(descriptor: LinuxTun.open(name: "cv0", framing: framing, kind: 1).release())
            }
            #expect(tun.framing == framing)
            try TunTest.bringUp("cv0", in: namespace)
            try EchoPump(tun).during {
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "10.9.0.2")
            }
        }

        @Test("Offloads that another process left on are disabled if they are not wanted")
        func offloadMask() throws {
            let namespace = try Namespace()
            // ETHTOOL_GTXCSUM and ETHTOOL_GTSO (linux/ethtool.h).
            func features() throws -> [UInt32] {
                try namespace.perform { try [0x16, 0x1e].map { try feature($0, of: "cv0") } }
            }
            var builder = TunBuilder(name: "cv0")
            builder.isPersistent = true
            builder.offload = OffloadOptions()
            try namespace.perform { [builder] in try builder.build() }.close()
            #expect(try features() == [1, 1])
            builder.offload = .none
            let tun = try namespace.perform { [builder] in try builder.build() }
            #expect(try features() == [0, 0])
            tun.close()
        }

        /// Returns the kernel's value of one feature of an interface, by SIOCETHTOOL.
        private func feature(_ command: UInt32, of name: String) throws -> UInt32 {
            let socket = OwnedDescriptor(socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0))
            var value = (command, UInt32.max)
            let result = unsafe withUnsafeMutablePointer(to: &value) { value in
                var request = unsafe ifreq()
                unsafe withUnsafeMutableBytes(of: &request) { bytes in
                    unsafe bytes.copyBytes(from: name.utf8)
                    unsafe bytes.storeBytes(of: UInt(bitPattern: value), toByteOffset: 16, as: UInt.self)
                }
                return unsafe ioctl(socket.number, 0x8946, &request)
            }
            try #require(result >= 0, "errno \(Foundation.errno)")
            return value.1
        }

        // MARK: - At run time

        @Test("Addresses come and go, each once")
        func addresses() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            #expect(try tun.addresses() == [])
            let all = try [
                InterfaceAddress("10.9.0.1/24"), InterfaceAddress("10.8.0.1 peer 10.8.0.2/32"),
                InterfaceAddress("fd09::1/64"), InterfaceAddress("fd08::1 peer fd08::2/128"),
            ]
            for address in all {
                try tun.add(address)
                let again = #expect(throws: TunnelIOError.self) { try tun.add(address) }
                #expect(again?.errno == EEXIST)
            }
            #expect(try Set(tun.addresses()) == Set(all))
            let other = try namespace.perform { try LinuxTun(name: "cv1", mtu: 1420) }
            #expect(try other.addresses() == [])
            for (index, address) in all.enumerated() {
                try tun.remove(address)
                #expect(try Set(tun.addresses()) == Set(all[(index + 1)...]))
                let again = #expect(throws: TunnelIOError.self) { try tun.remove(address) }
                #expect(again?.errno == EADDRNOTAVAIL)
                #expect("\(try #require(again))".contains("'cv0': remove the address \(address)"))
            }
        }

        @Test("Hundreds of addresses are listed, in any number of messages")
        func manyAddresses() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            let all = (0..<700).map { InterfaceAddress(host: .v6(0xfd00 << 48, UInt64($0 + 1))) }
            for address in all { try tun.add(address) }
            #expect(try Set(tun.addresses()) == Set(all))
        }

        @Test("Addresses, name, number and queue length follow the device into another namespace")
        func elsewhere() throws {
            let birth = try Namespace()
            let second = try Namespace()
            let tun = try birth.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try second.run("ip", "link", "add", "dummy7", "type", "veth")
            try birth.run("ip", "link", "set", "cv0", "netns", second.name)
            let address = try InterfaceAddress("10.9.0.1/24")
            try tun.add(address)
            #expect(try tun.addresses() == [address])
            try tun.setTxQueueLength(33)
            try tun.rename(to: "cv9")
            #expect(try tun.currentName() == "cv9")
            let link = try TunTest.describe("cv9", in: second)
            #expect(link["txqlen"] as? Int == 33)
            #expect(try link["ifindex"] as? Int == Int(tun.interfaceIndex()))
            #expect(try !tun.attributes().isMultiQueue)
            #expect(try !tun.isRunning())
            try tun.setUp(true)
            #expect(try tun.isRunning())
        }

        @Test("Renaming to a name that is taken or none fails and changes nothing")
        func renaming() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            let taken = #expect(throws: TunnelIOError.self) { try tun.rename(to: "lo") }
            #expect(taken?.errno == EEXIST)
            #expect(throws: TunnelIOError(.invalidInterfaceName("a/b"))) { try tun.rename(to: "a/b") }
            try tun.rename(to: "cv0")
            #expect(try tun.currentName() == "cv0")
            try namespace.run("ip", "link", "delete", "cv0")
            #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) { try tun.addresses() }
            #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) { try tun.rename(to: "cv1") }
            #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) { try tun.setPersistent(true) }
        }

        // MARK: - Descriptors

        @Test("A borrowed descriptor still belongs to its lender")
        func borrowing() throws {
            let namespace = try Namespace()
            let lender = OwnedDescriptor(
                try namespace.perform { try LinuxTun.open(name: "cv0", framing: TunFraming(), kind: 1).release() })
            let tun = try namespace.perform { try LinuxTun(borrowing: lender.number) }
            try TunTest.bringUp("cv0", in: namespace)
            try namespace.perform { try TunTest.sendDatagram(to: "10.9.0.2", payload: [7]) }
            #expect(try TunTest.payloads(of: [tun], count: 1) == [[7]])
            tun.close()
            #expect(Foundation.fcntl(lender.number, F_GETFD) >= 0)
            #expect(try TunTest.exists("cv0", in: namespace))
            let error = #expect(throws: TunnelIOError.self) { _ = try LinuxTun(borrowing: -1) }
            #expect(error?.errno == EBADF)
        }

        @Test("A descriptor that is handed back works on, and the device it came from does not")
        func releasing() throws {
            let namespace = try Namespace()
            let first = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            let descriptor = try first.release()
            #expect(throws: TunnelIOError(.closed)) { try first.currentName() }
            #expect(throws: TunnelIOError(.closed)) { try first.release() }
            first.close()
            #expect(Foundation.fcntl(descriptor, F_GETFD) == FD_CLOEXEC)
            let second = try namespace.perform { try LinuxTun(descriptor: descriptor) }
            try TunTest.bringUp("cv0", in: namespace)
            try EchoPump(second).during {
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "10.9.0.2")
            }
            second.close()
            #expect(try !TunTest.exists("cv0", in: namespace))
        }
    }
#endif
