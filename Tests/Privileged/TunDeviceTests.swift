// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import Testing
    import TunnelSystem

    @testable import TunnelIO

    @Suite("Linux TUN device", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(5)))
    struct TunDeviceTests {
        // MARK: - Names and states

        @Test("A new device has the name and MTU asked for, and is down")
        func create() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1380) }
            #expect(try tun.currentName() == "cv0")
            #expect(try tun.currentMTU() == 1380)
            #expect(try tun.currentLinkState().isUp == false)
            #expect(try namespace.run("ip", "link", "show", "cv0").output.contains("mtu 1380"))
            tun.close()
            #expect(try namespace.runAllowingFailure("ip", "link", "show", "cv0").status != 0)
            #expect(throws: TunnelIOError(.closed)) { try tun.currentName() }
            #expect(throws: TunnelIOError(.closed)) { try tun.receive(into: TunTest.batch()) }
            tun.close()
        }

        @Test("The MTU may be anything from 68 to 65,535", arguments: [68, 1280, 65_535])
        func mtu(_ mtu: Int) throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: mtu) }
            #expect(try tun.currentMTU() == mtu)
            try tun.setMTU(1400)
            #expect(try tun.currentMTU() == 1400)
            let error = #expect(throws: TunnelIOError.self) { try tun.setMTU(65_536) }
            #expect(error?.errno == EINVAL)
        }

        @Test(
            "A batch that is too small to read into is refused, and the packet stays",
            arguments: [OffloadOptions.none, OffloadOptions()])
        func smallBatch(_ offload: OffloadOptions) throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420, offload: offload) }
            try TunTest.bringUp("cv0", in: namespace)
            try namespace.perform { try TunTest.sendDatagram(to: "10.9.0.2", payload: [7]) }
            for bytes in [1, 1_500, 65_535, PacketBatch.minimumReadBytes / 2] {
                let small = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
                let error = #expect(throws: TunnelIOError.self) { try tun.receive(into: small) }
                guard case .invalidBatch? = error?.code else {
                    Issue.record("\(error as Any)")
                    return
                }
            }
            #expect(try TunTest.payloads(of: [tun], count: 1) == [[7]])
        }

        @Test(
            "A name that the system would refuse or expand is refused",
            arguments: ["", "has space", "a/b", "tun%d", ".", "sixteen-letters!"])
        func badName(_ name: String) throws {
            let namespace = try Namespace()
            let error = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { try LinuxTun(name: name, mtu: 1420) }
            }
            #expect(error?.code == .invalidInterfaceName(name))
        }

        @Test("A name in use says by what")
        func nameInUse() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            let busy = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            }
            #expect(busy?.errno == EBUSY)
            #expect("\(try #require(busy))".contains("another process has it open"))
            let other = #expect(throws: TunnelIOError.self) {
                _ = try namespace.perform { try LinuxTun(name: "lo", mtu: 1420) }
            }
            #expect(other?.errno == EEXIST)
            #expect("\(try #require(other))".contains("interface of another kind"))
            tun.close()
        }

        // MARK: - Events

        @Test("Up, down, MTU and rename are seen as they happen")
        func events() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            #expect(tun.drainLinkEvents() == [])
            try namespace.run("ip", "link", "set", "cv0", "up")
            #expect(try linkEvents(of: tun, until: .up) == [.up])
            try namespace.run("ip", "link", "set", "cv0", "mtu", "1300")
            #expect(try linkEvents(of: tun, until: .mtu(1300)) == [.mtu(1300)])
            try namespace.run("ip", "link", "set", "cv0", "down")
            #expect(try linkEvents(of: tun, until: .down) == [.down])
            try namespace.run("ip", "link", "set", "cv0", "name", "renamed0")
            #expect(try tun.currentName() == "renamed0")
            #expect(try tun.currentMTU() == 1300)
            try tun.setUp(true)
            #expect(try linkEvents(of: tun, until: .up) == [.up])
            #expect(try tun.currentLinkState() == LinkState(isUp: true, mtu: 1300))
            try tun.setUp(false)
            #expect(try linkEvents(of: tun, until: .down) == [.down])
        }

        @Test("Other interfaces' changes are not this device's")
        func otherInterfaces() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try namespace.run("ip", "link", "add", "other0", "type", "veth")
            try namespace.run("ip", "link", "set", "other0", "up", "mtu", "1000")
            try namespace.run("ip", "link", "delete", "other0")
            try tun.setUp(true)
            #expect(try linkEvents(of: tun, until: .up) == [.up])
        }

        @Test("Deleting the interface is seen, and ends reading and writing")
        func deletion() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try namespace.run("ip", "link", "delete", "cv0")
            #expect(try linkEvents(of: tun, until: .removed).last == .removed)
            #expect(tun.drainLinkEvents() == [])
            let gone = TunnelIOError(.deviceRemoved(name: "cv0"))
            #expect(Poll.isReadable(tun.readiness, before: .now + Privileged.patience))
            #expect(throws: gone) { try tun.receive(into: TunTest.batch()) }
            #expect(throws: gone) { try tun.send(TunTest.batch([Self.request])) }
            #expect(throws: gone) { try tun.currentName() }
            #expect(throws: gone) { try tun.currentMTU() }
        }

        @Test("A loop that waits only for the end is notified when the interface of a down device is deleted")
        func endAlone() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            let loop = try EventLoop()
            let ended = Event()
            let heard = Mutex<EventLoop.Readiness>([])
            _ = try loop.register(tun.readiness, for: .end) { readiness in
                heard.withLock { $0.formUnion(readiness) }
                ended.signal()
                loop.stop()
            }
            try loop.startThread(name: "culvert-test")
            defer { loop.stop() }
            try TunTest.bringUp("cv0", in: namespace)
            try namespace.perform { try TunTest.sendDatagram(to: "10.9.0.2", payload: [7]) }
            try namespace.run("ip", "link", "set", "cv0", "down")
            #expect(heard.withLock { $0 } == [])
            try namespace.run("ip", "link", "delete", "cv0")
            #expect(ended.wait(timeout: Privileged.patience))
            #expect(heard.withLock { $0.contains(.error) })
        }

        // MARK: - Namespaces

        @Test("A device that is moved to other namespaces and back keeps its name, MTU and events")
        func moves() throws {
            let birth = try Namespace()
            let second = try Namespace()
            let third = try Namespace()
            let tun = try birth.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try tun.setUp(true)
            #expect(try linkEvents(of: tun, until: .up) == [.up])
            var here = birth
            for next in [second, third, birth, second] {
                try here.run("ip", "link", "set", "cv0", "netns", next.name)
                #expect(try linkEvents(of: tun, until: .down) == [.down])
                #expect(try tun.currentName() == "cv0")
                #expect(try tun.currentLinkState() == LinkState(isUp: false, mtu: 1420))
                // Another interface with the same name is ignored.
                try here.run("ip", "link", "add", "cv0", "type", "veth")
                try here.run("ip", "link", "set", "cv0", "up", "mtu", "900")
                try next.run("ip", "link", "set", "cv0", "mtu", "1350")
                #expect(try linkEvents(of: tun, until: .mtu(1350)) == [.mtu(1350)])
                #expect(try tun.currentMTU() == 1350)
                try tun.setMTU(1420)
                #expect(try linkEvents(of: tun, until: .mtu(1420)) == [.mtu(1420)])
                try next.run("ip", "link", "set", "cv0", "up")
                #expect(try linkEvents(of: tun, until: .up) == [.up])
                try here.run("ip", "link", "delete", "cv0")
                here = next
            }
            try here.run("ip", "link", "delete", "cv0")
            #expect(try linkEvents(of: tun, until: .removed).last == .removed)
        }

        @Test("Deleting the namespace that a device was moved to deletes the device")
        func namespaceDeletion() throws {
            let birth = try Namespace()
            let second = try Namespace()
            let tun = try birth.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try birth.run("ip", "link", "set", "cv0", "netns", second.name)
            #expect(try tun.currentName() == "cv0")
            #expect(tun.drainLinkEvents() == [])
            second.delete()
            #expect(try linkEvents(of: tun, until: .removed).last == .removed)
            // The end of the namespace is reported before its interfaces are removed.
            #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) {
                let end = ContinuousClock.now + Privileged.patience
                while Poll.isReadable(tun.readiness, before: end), .now < end {
                    _ = try tun.receive(into: TunTest.batch())
                }
            }
        }

        @Test("Packets flow while the device is in another namespace than this process")
        func packetsElsewhere() throws {
            let birth = try Namespace()
            let second = try Namespace()
            let tun = try birth.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try birth.run("ip", "link", "set", "cv0", "netns", second.name)
            try TunTest.bringUp("cv0", in: second)
            try EchoPump(tun).during {
                try second.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "10.9.0.2")
            }
        }

        // MARK: - Packets

        @Test(
            "The system's ping is answered, in small and in large packets",
            arguments: [
                ("10.9.0.2", 0), ("10.9.0.2", 1392), ("10.9.0.2", 60_000), ("fd09::2", 16), ("fd09::2", 1372),
            ])
        func ping(_ address: String, _ size: Int) throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 65_535) }
            try TunTest.bringUp("cv0", in: namespace)
            try EchoPump(tun).during {
                try namespace.run("ping", "-c", "3", "-i", "0.02", "-W", "5", "-s", "\(size)", address)
            }
        }

        @Test("Packets lie apart from each other, aligned, and a batch with no more room leaves the rest for the next")
        func batches() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try TunTest.bringUp("cv0", in: namespace)
            _ = try namespace.runAllowingFailure(
                "ping", "-c", "100", "-l", "100", "-q", "-w", "1", "-s", "1350", "10.9.0.2")
            let batch = try TunTest.batch(byteCapacity: 1 << 17)
            var sizes: [Int] = []
            var echoes = 0
            while try tun.receive(into: batch) > 0 {
                sizes.append(batch.count)
                var end = 0
                for index in 0..<batch.count {
                    let place = batch[index]
                    #expect(Int(place.offset) >= end + 32)
                    #expect(place.offset % 16 == 0)
                    end = Int(place.offset + place.length) + 32
                    if batch.copy(of: index)[9] == 1 { echoes += 1 }
                }
                #expect(end <= batch.byteCapacity)
                batch.removeAll()
            }
            #expect(echoes == 100)
            #expect(sizes.count > 1, "one batch of 128 KiB cannot hold all with room to spare: \(sizes)")
        }

        @Test("Packets that the system refuses are dropped and counted")
        func refusals() throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            #expect(try tun.send(TunTest.batch([Self.request])) == TunSendResult(sent: 0, dropped: 1))
            #expect(try tun.receive(into: TunTest.batch()) == 0)
            #expect(!Poll.isReadable(tun.readiness, before: .now))
            try TunTest.bringUp("cv0", in: namespace)
            let notIP: [UInt8] = [0xff, 1, 2, 3]
            #expect(
                try tun.send(TunTest.batch([Self.request, notIP, [], Self.request]))
                    == TunSendResult(sent: 2, dropped: 1))
        }

        // MARK: - Descriptors handed in

        @Test(
            "A descriptor works with every framing",
            arguments: [
                TunFraming(), TunFraming(hasVirtioHeader: true),
            ])
        func descriptor(_ framing: TunFraming) throws {
            let namespace = try Namespace()
            let tun = try namespace.perform {
                let descriptor = try LinuxTun.open(name: "cv0", framing: framing, kind: 1).release()
                if framing.hasVirtioHeader {
                    // The state that an owner with offloads leaves: TUNSETOFFLOAD with CSUM, TSO4 and TSO6;
                    // TUNSETVNETHDRSZ.
                    #expect(ioctl(descriptor, 0x4004_54d0, 7) == 0)
                    var length: Int32 = 12
                    #expect(unsafe ioctl(descriptor, 0x4004_54d8, &length) == 0)
                }
                return try LinuxTun(descriptor: descriptor)
            }
            #expect(tun.framing == framing)
            #expect(try tun.currentName() == "cv0")
            try TunTest.bringUp("cv0", in: namespace)
            try EchoPump(tun).during {
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "10.9.0.2")
                try namespace.run("ping", "-c", "2", "-i", "0.02", "-W", "5", "fd09::2")
            }
        }

        @Test("A packet that waited with an incomplete checksum is completed")
        func leftOverOffload() throws {
            let namespace = try Namespace()
            let descriptor = try namespace.perform {
                let descriptor = try LinuxTun.open(name: "cv0", framing: TunFraming(hasVirtioHeader: true), kind: 1)
                #expect(ioctl(descriptor.number, 0x4004_54d0, 7) == 0)
                return descriptor.release()
            }
            try TunTest.bringUp("cv0", in: namespace)
            // Send it while the kernel may omit checksums.
            try namespace.perform { try TunTest.sendDatagram(to: "10.9.0.2", payload: [1, 2, 3]) }
            let tun = try namespace.perform { try LinuxTun(descriptor: descriptor) }
            let batch = try TunTest.batch()
            _ = try tun.receive(into: batch)
            let packets = (0..<batch.count).map { batch.copy(of: $0) }
            let datagram = try #require(packets.first { $0[0] == 0x45 && $0[9] == 17 })
            var sum = PacketBuilder.pseudoHeader(
                from: .v4(10, 9, 0, 1), to: .v4(10, 9, 0, 2), number: 17, length: datagram.count - 20)
            unsafe datagram.withUnsafeBytes { unsafe sum.add(UnsafeRawBufferPointer(rebasing: $0[20...])) }
            #expect(sum.value == 0)
            #expect(datagram.suffix(3) == [1, 2, 3])
        }

        @Test("A TAP descriptor is refused")
        func tap() throws {
            let namespace = try Namespace()
            let descriptor = try namespace.perform {
                try LinuxTun.open(name: "cv0", framing: TunFraming(), kind: 2).release()
            }
            let error = #expect(throws: TunnelIOError.self) { try LinuxTun(descriptor: descriptor) }
            #expect("\(try #require(error))".contains("'cv0' is a TAP device"))
            // The passed descriptor is closed, and the interface was removed with it.
            #expect(try namespace.runAllowingFailure("ip", "link", "show", "cv0").status != 0)
        }

        @Test("Descriptors of other things are refused")
        func wrongDescriptors() throws {
            for path in ["/dev/null", "/dev/net/tun", "/proc/self/stat"] {
                let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
                try #require(descriptor >= 0)
                let error = #expect(throws: TunnelIOError.self) { try LinuxTun(descriptor: descriptor) }
                guard case .invalidDescriptor(descriptor, _) = error?.code else {
                    Issue.record("\(path): \(String(describing: error))")
                    continue
                }
            }
            let error = #expect(throws: TunnelIOError.self) { try LinuxTun(descriptor: -1) }
            #expect(error?.errno == EBADF)
        }

        // MARK: - Helpers

        private static let request = PacketBuilder.icmpEcho(
            from: .v4(10, 9, 0, 2), to: .v4(10, 9, 0, 1), identifier: 1, sequence: 1)

        private func linkEvents(of tun: LinuxTun, until last: LinkEvent) throws -> [LinkEvent] {
            let descriptor = try #require(tun.linkReadiness)
            let end = ContinuousClock.now + Privileged.patience
            var events: [LinkEvent] = []
            while !events.contains(last) {
                guard Poll.isReadable(descriptor, before: end) else {
                    throw CommandFailure(description: "no \(last) within \(Privileged.patience), but \(events)")
                }
                events += tun.drainLinkEvents()
            }
            return events
        }
    }
#endif
