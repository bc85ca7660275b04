// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import Synchronization
    import Testing

    @testable import TunnelIO

    @Suite("Waiting for packets of a Linux TUN device", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(5)))
    struct TunPortTests {
        @Test("Packets of the system are received one by one, spread over buffers and as a task")
        func receive() async throws {
            let (namespace, port) = try make()
            try namespace.perform {
                for number in 0..<3 { try TunTest.sendDatagram(to: "10.9.0.2", payload: [UInt8(number)]) }
            }
            let first = try #require(try Self.nextDatagram(port))
            #expect(first.last == 0)
            var (head, body) = ([UInt8](repeating: 0, count: 28), [UInt8](repeating: 0, count: 100))
            let length = try unsafe head.withUnsafeMutableBytes { head in
                try unsafe body.withUnsafeMutableBytes { body in
                    unsafe try port.receive(into: [head, body], timeout: Privileged.patience)
                }
            }
            #expect(length == 29)
            #expect(head[0] == 0x45 && body[0] == 1)
            #expect(try await port.nextPacket().last == 2)
            #expect(try port.receive(timeout: .milliseconds(5)) == nil)
        }

        @Test("A packet is sent from pieces")
        func send() throws {
            let (namespace, port) = try make()
            let request = PacketBuilder.icmpEcho(
                from: .v4(10, 9, 0, 2), to: .v4(10, 9, 0, 1), identifier: 1, sequence: 1)
            let isSent = try unsafe request.withUnsafeBytes { bytes in
                unsafe try port.send(gathering: [
                    UnsafeRawBufferPointer(rebasing: bytes[..<5]), UnsafeRawBufferPointer(rebasing: bytes[5...]),
                ])
            }
            #expect(isSent)
            let reply = try #require(try port.receive(timeout: Privileged.patience))
            #expect(reply[9] == 1 && reply[20] == 0, "an echo reply")
            withExtendedLifetime(namespace) {}
        }

        @Test("Interrupting, closing and deleting stop a blocked receive within milliseconds", arguments: Stop.allCases)
        func stops(_ stop: Stop) throws {
            let (namespace, port) = try make()
            let box = Outcome()
            let thread = try LoopThread(name: "blocked") {
                do throws(TunnelIOError) {
                    _ = try port.receive(timeout: Privileged.patience)
                } catch {
                    box.set(error.code)
                }
            }
            while port.blockedThreads == 0 {}
            let start = ContinuousClock.now
            switch stop {
            case .interrupt: port.interrupt()
            case .close: port.close()
            case .delete: try namespace.run("ip", "link", "delete", "cv0")
            }
            thread.join()
            // Starting ip(8) takes some time.
            #expect(start.duration(to: .now) < (stop == .delete ? .seconds(5) : .seconds(1)))
            #expect(box.value == stop.code)
            if stop == .close { #expect(try !TunTest.exists("cv0", in: namespace)) }
            if stop == .interrupt {
                port.resetInterrupt()
                try namespace.perform { try TunTest.sendDatagram(to: "10.9.0.2", payload: [9]) }
                #expect(try Self.nextDatagram(port)?.last == 9)
            }
        }

        @Test(
            "Deleting the interface under load ends receiving and sending",
            arguments: [OffloadOptions.none, OffloadOptions()])
        func deletionUnderLoad(_ offload: OffloadOptions) throws {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420, offload: offload) }
            try TunTest.bringUp("cv0", in: namespace)
            let load = try namespace.start("ping", "-f", "-q", "-s", "1300", "10.9.0.2")
            let port = try PacketPort(tun)
            let (received, sent) = (Outcome(), Outcome())
            let receiver = try LoopThread(name: "receiver") {
                do throws(TunnelIOError) {
                    let batch = try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18)
                    while true {
                        batch.removeAll()
                        if try port.receive(into: batch, timeout: Privileged.patience) == 0 { return }
                    }
                } catch { received.set(error.code) }
            }
            let sender = try LoopThread(name: "sender") {
                let request = PacketBuilder.icmpEcho(
                    from: .v4(10, 9, 0, 2), to: .v4(10, 9, 0, 1), identifier: 1, sequence: 1)
                do throws(TunnelIOError) {
                    while true { try port.send(request) }
                } catch { sent.set(error.code) }
            }
            for _ in 0..<100 { _ = try tun.currentLinkState() }
            try namespace.run("ip", "link", "delete", "cv0")
            receiver.join()
            sender.join()
            #expect(received.value == .deviceRemoved(name: "cv0"))
            #expect(sent.value == .deviceRemoved(name: "cv0"))
            withExtendedLifetime(load) {}
        }

        // MARK: - Helpers

        enum Stop: CaseIterable, Sendable {
            case interrupt
            case close
            case delete

            var code: TunnelIOError.Code {
                switch self {
                case .interrupt: .interrupted
                case .close: .closed
                case .delete: .deviceRemoved(name: "cv0")
                }
            }
        }

        /// The result of a thread.
        private final class Outcome: Sendable {
            private let code = Mutex<TunnelIOError.Code?>(nil)
            func set(_ new: TunnelIOError.Code) { code.withLock { $0 = new } }
            var value: TunnelIOError.Code? { code.withLock { $0 } }
        }

        /// Opens a port on an interface that is up and sends no packets itself: without IPv6.
        private func make() throws -> (Namespace, PacketPort) {
            let namespace = try Namespace()
            let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
            try namespace.run("sysctl", "-qw", "net.ipv6.conf.cv0.disable_ipv6=1")
            try namespace.run("ip", "address", "add", "10.9.0.1/24", "dev", "cv0")
            try namespace.run("ip", "link", "set", "cv0", "up")
            return (namespace, try PacketPort(tun))
        }

        private static func nextDatagram(_ port: PacketPort) throws -> [UInt8]? {
            while let packet = try port.receive(timeout: Privileged.patience) {
                if packet[9] == 17 { return packet }
            }
            return nil
        }
    }
#endif
