// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    @testable import PacketTunnel

    @testable import PacketTunnelLinux

    /// Captures every packet that a host sends, at the router.
    extension LinuxHostWorld {
        /// The methods that programs use to send packets.
        enum Ways {
            /// All methods.
            case all
            /// Sockets whose interface the routes select.
            case routed
        }

        /// A running capture of the packets at the router's interface.
        final class Capture {
            private let world: LinuxHostWorld
            private let file: String
            private let process: SpawnedProcess

            init(_ world: LinuxHostWorld) throws {
                self.world = world
                file = world.folder + ".pcap"
                process = try world.router.start(
                    "tcpdump", "-U", "--immediate-mode", "-n", "-i", "eth0", "-Q", "in", "-w", file)
                try process.waitForOutput(containing: "listening on")
            }

            deinit { try? FileManager.default.removeItem(atPath: file) }

            /// Ends the capture; returns the packets, one line each, oldest first.
            func lines() throws -> [String] {
                // Send a last packet that is always allowed. When it arrives, no earlier packet is still in transit.
                try world.send(to: "192.0.2.1", port: 65_000, mark: 51_821)
                try eventually("the capture has the last packet") {
                    try run(["tcpdump", "-n", "-r", file, "udp dst port 65000"]).output.contains("65000")
                }
                process.signal(SIGINT)
                _ = try process.wait()
                let lines = try run(["tcpdump", "-n", "-t", "-r", file, "not udp dst port 65000"]).output
                return lines.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("reading from") }
            }
        }

        /// Returns the packets that the router's interface receives while `body` runs.
        func captured(_ body: () throws -> Void) throws -> [String] {
            let capture = try Capture(self)
            try body()
            return try capture.lines()
        }

        /// Makes programs on the host try to send packets.
        func tryEverything(_ ways: Ways = .all) throws {
            let interfaces: [String?] = ways == .all ? [nil, "eth0"] : [nil]
            for address in ["10.55.1.1", "8.8.8.8", "2001:db8:7::7", "fd55::1"] {
                for interface in interfaces {
                    let bound = interface.map { ["-I", $0] } ?? []
                    _ = try PrivilegedTests.runAllowingFailure(
                        ["ip", "netns", "exec", host.name, "ping", "-n", "-q", "-c", "1", "-W", "0.1"] + bound
                            + [address])
                }
                for port: UInt16 in [53, 80] {
                    for interface in interfaces { try send(to: address, port: port, interface: interface) }
                    try connect(to: address, port: port)
                }
            }
            guard ways == .all else { return }
            // The mark is only for the tunnel's own protocol.
            _ = try host.runAllowingFailure("ping", "-m", "51821", "-n", "-q", "-c", "1", "-W", "0.1", "8.8.8.8")
        }

        /// Whether a line is a packet of the link itself, which every policy allows.
        static func isLinkConfiguration(_ line: String) -> Bool {
            line.contains("ARP,") || line.contains("neighbor solicitation") || line.contains("neighbor advertisement")
                || line.contains("router solicitation") || line.contains("multicast listener report")
        }
    }

    /// Runs blocking work on a separate thread, so that tasks continue meanwhile.
    func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
#endif
