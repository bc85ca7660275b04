// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import Testing
    import TunnelSystem

    @testable import TunnelIO

    @Suite("Queues of a Linux TUN device", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(5)))
    struct TunQueueTests {
        @Test("Two queues both deliver, and both send", arguments: [OffloadOptions.none, OffloadOptions()])
        func both(_ offload: OffloadOptions) throws {
            let namespace = try Namespace()
            let first = try namespace.perform {
                try LinuxTun(name: "cv0", mtu: 1420, offload: offload, isMultiQueue: true)
            }
            let second = try first.cloneQueue(inside: namespace)
            try TunTest.bringUp("cv0", in: namespace)
            // Each datagram is a separate flow, because its socket has its own port.
            try namespace.perform {
                for number in 0..<64 { try TunTest.sendDatagram(to: "10.9.0.2", payload: [UInt8(number)]) }
            }
            let payloads = try TunTest.payloads(of: [first, second], count: 64)
            #expect(payloads.allSatisfy { !$0.isEmpty }, "\(payloads)")
            #expect(payloads.flatMap { $0 }.sorted() == Array(0..<64))
            let request = PacketBuilder.icmpEcho(
                from: .v4(10, 9, 0, 2), to: .v4(10, 9, 0, 1), identifier: 1, sequence: 1)
            for tun in [first, second] {
                #expect(try tun.send(TunTest.batch([request])) == TunSendResult(sent: 1, dropped: 0))
            }
        }

        @Test("The interface is removed when its last queue is closed, whichever it is")
        func lifetime() throws {
            let namespace = try Namespace()
            let first = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420, isMultiQueue: true) }
            let second = try first.cloneQueue(inside: namespace)
            let third = try second.cloneQueue(inside: namespace)
            try first.setUp(true)
            first.close()
            third.close()
            #expect(try TunTest.exists("cv0", in: namespace))
            #expect(try second.currentLinkState() == LinkState(isUp: true, mtu: 1420))
            #expect(throws: TunnelIOError(.closed)) { _ = try first.cloneQueue() }
            second.close()
            #expect(try !TunTest.exists("cv0", in: namespace))
        }

        @Test("Deleting the interface ends every queue")
        func deletion() throws {
            let namespace = try Namespace()
            let first = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420, isMultiQueue: true) }
            let second = try first.cloneQueue(inside: namespace)
            try namespace.run("ip", "link", "delete", "cv0")
            for tun in [first, second] {
                #expect(Poll.isReadable(tun.readiness, before: .now + Privileged.patience))
                #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) { try tun.receive(into: TunTest.batch()) }
            }
            #expect(throws: TunnelIOError(.deviceRemoved(name: "cv0"))) { _ = try first.cloneQueue() }
        }

        @Test("A queue is made also of a device that was renamed or moved to another namespace")
        func elsewhere() throws {
            let birth = try Namespace()
            let second = try Namespace()
            let first = try birth.perform { try LinuxTun(name: "cv0", mtu: 1420, isMultiQueue: true) }
            try birth.run("ip", "link", "set", "cv0", "name", "cv1")
            let renamed = try first.cloneQueue(inside: birth)
            #expect(try renamed.currentName() == "cv1")
            renamed.close()
            try birth.run("ip", "link", "set", "cv1", "netns", second.name)
            // Call it on a thread that is in neither namespace.
            let moved = try first.cloneQueue()
            #expect(try moved.currentName() == "cv1")
            try TunTest.bringUp("cv1", in: second)
            #expect(try moved.currentLinkState().isUp)
            #expect(try !TunTest.exists("cv1", in: birth))
        }

        @Test("A device that was made with one queue has no other")
        func single() throws {
            let namespace = try Namespace()
            let tun: any TunDevice = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            #expect(throws: TunnelIOError(.unsupported("another queue of a device that was made with one"))) {
                _ = try tun.makeQueue()
            }
            #expect(tun.statistics == TunStatistics())
        }

        @Test("A descriptor that is handed in says whether its interface has queues")
        func handedIn() throws {
            let namespace = try Namespace()
            let descriptor = try namespace.perform {
                try LinuxTun.open(name: "cv0", framing: TunFraming(), kind: 1, isMultiQueue: true).release()
            }
            let tun = try namespace.perform { try LinuxTun(descriptor: descriptor) }
            let queue = try tun.cloneQueue(inside: namespace)
            #expect(try queue.currentName() == "cv0")
        }
    }

    extension LinuxTun {
        fileprivate func cloneQueue(inside namespace: Namespace) throws -> LinuxTun {
            try namespace.perform { try self.cloneQueue() }
        }
    }
#endif
