// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel

#if os(Linux)
    import PacketTunnelLinux

    /// The tunnel as a service on Linux, until SIGINT or SIGTERM:
    ///
    ///     sudo echo-tunnel-example echo0        and elsewhere: ping 10.77.0.1
    @main
    enum Program {
        static func main() {
            TunnelProgram.run {
                let host = try LinuxHost<EchoTunnel>(
                    name: CommandLine.arguments.dropFirst().first ?? "echo0",
                    logger: Logger(label: "echo") { RedactingLogHandler.standardError(label: $0) })
                try await host.run(
                    EchoTunnel.Configuration(
                        address: InterfaceAddress("10.77.0.2/24"),
                        usesDescriptor: CommandLine.arguments.contains("--descriptor")))
            }
        }
    }
#else
    /// Elsewhere the system runs tunnels: see Examples/AppleTunnel.
    @main
    enum Program {
        static func main() { print("this program is for Linux; see Examples/AppleTunnel") }
    }
#endif
