// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    @testable import TunnelIO

    /// Answers echo requests that arrive at a device, on its own thread.
    final class EchoPump: Sendable {
        private let tun: LinuxTun

        init(_ tun: LinuxTun) {
            self.tun = tun
        }

        /// Answers while `body` runs.
        func during(_ body: () throws -> Void) throws {
            var ends: [Int32] = [-1, -1]
            #expect(unsafe pipe(&ends) == 0)
            let (stopReader, stopWriter) = (ends[0], ends[1])
            let finished = DispatchSemaphore(value: 0)
            Thread.detachNewThread { [tun] in
                defer { finished.signal() }
                do {
                    let inbound = try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18)
                    let outbound = try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 20)
                    let responder = ICMPResponder()
                    while !Poll.readable([tun.readiness, stopReader], before: .now + Privileged.patience).contains(
                        stopReader)
                    {
                        inbound.removeAll()
                        outbound.removeAll()
                        _ = try tun.receive(into: inbound)
                        for index in 0..<inbound.count {
                            if let reply = unsafe responder.reply(to: UnsafeRawBufferPointer(inbound.bytes(of: index)))
                            {
                                outbound.append(copying: reply)
                            }
                        }
                        _ = try tun.send(outbound)
                    }
                } catch {
                    Issue.record(error)
                }
            }
            defer {
                close(stopWriter)
                finished.wait()
                close(stopReader)
            }
            try body()
        }
    }
#endif
