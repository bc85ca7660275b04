// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import FoundationEssentials
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import WireGuardTunnel

    /// The parts that a tunnel service needs: a wg-quick file, the WireGuard provider, the host's network.
    ///
    ///     linux-tunnel-example wg0 wg0.conf
    ///
    /// It runs until SIGINT or SIGTERM, or until its tunnel ends. `culvert up` is this with all that people need.
    @main
    enum LinuxTunnel {
        static func main() {
            TunnelProgram.run {
                guard CommandLine.arguments.count == 3 else { throw Usage() }
                try await run(interface: CommandLine.arguments[1], file: CommandLine.arguments[2])
            }
        }

        private struct Usage: Error, CustomStringConvertible {
            var description: String { "usage: linux-tunnel-example INTERFACE FILE" }
        }

        private static func run(interface: String, file: String) async throws {
            let text = String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: file)
            let logger = Logger(label: interface) { RedactingLogHandler.standardError(label: $0) }
            if !parts.ignoredKeys.isEmpty { logger.warning("left out: \(parts.ignoredKeys.joined(separator: ", "))") }
            // The file's settings for the host.
            var options = LinuxHostOptions(routeTable: parts.configuration.routeTable)
            if let mark = parts.configuration.fwMark, mark != 0 { options.mark = mark }
            let secrets = MemorySecretStore()
            for (name, secret) in parts.secrets { try await secrets.write(secret, name, of: "file") }
            let host = try LinuxHost<WireGuardTunnelProvider>(
                name: interface, options: options, secrets: secrets, logger: logger)
            try await host.run(parts.configuration, profileID: "file")
        }
    }
#else
    /// Elsewhere the system runs tunnels: see Examples/AppleTunnel.
    @main
    enum LinuxTunnel {
        static func main() { print("this example is for Linux; see Examples/AppleTunnel") }
    }
#endif
