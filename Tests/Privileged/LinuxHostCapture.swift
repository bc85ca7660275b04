// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    @testable import PacketTunnel

    @testable import PacketTunnelLinux

    /// The router sees every packet that leaves a host.
    extension LinuxHostWorld {
        /// Programs' ways to get out.
        enum Ways {
            /// All of them.
            case all
            /// Sockets whose interface the routes choose.
            case routed
        }

        /// A capture of the packets at the router's interface, until it is read.
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

            /// Ends it; returns the packets, one line each, oldest first.
            func lines() throws -> [String] {
                // The last packet is one that may always leave, so that nothing before it is still on its way.
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

        /// The packets that the router's interface sees while `body` runs.
        func captured(_ body: () throws -> Void) throws -> [String] {
            let capture = try Capture(self)
            try body()
            return try capture.lines()
        }

        /// Programs on the host try to get out.
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
            // The mark is for the tunnel's own protocol.
            _ = try host.runAllowingFailure("ping", "-m", "51821", "-n", "-q", "-c", "1", "-W", "0.1", "8.8.8.8")
        }

        /// Whether a line is of what every policy lets out: the link's own.
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
