// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import WireGuardTunnel

#if os(Linux)
    import FoundationEssentials

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// The least that a tunnel's service takes: a wg-quick file, the WireGuard provider, the host's network.
    ///
    ///     linux-tunnel-example wg0 wg0.conf
    ///
    /// It runs until it is told to end (SIGINT, SIGTERM), or its tunnel has. `culvert up` is this with all that people need.
    @main
    enum LinuxTunnel {
        static func main() {
            guard CommandLine.arguments.count == 3 else {
                say("usage: linux-tunnel-example INTERFACE FILE")
                exit(2)
            }
            // Threads that start from here on leave these signals to this one.
            var signals = sigset_t()
            unsafe sigemptyset(&signals)
            for number in [SIGINT, SIGTERM] { unsafe sigaddset(&signals, number) }
            unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
            do {
                let host = try run(interface: CommandLine.arguments[1], file: CommandLine.arguments[2])
                var number: Int32 = 0
                unsafe sigwait(&signals, &number)
                // This thread is the main actor's, and waits below.
                Task.detached {
                    await host.stop(.userInitiated)
                    exit(0)
                }
                while true { pause() }
            } catch {
                say("error: \(error)")
                exit(1)
            }
        }

        private static func run(interface: String, file: String) throws -> LinuxHost<WireGuardTunnelProvider> {
            let text = String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: file)
            let secrets = MemorySecretStore()
            let host = try LinuxHost<WireGuardTunnelProvider>(
                name: interface, secrets: secrets,
                logger: Logger(label: interface, factory: { StandardErrorLogHandler(label: $0) }))
            Task {
                do throws(TunnelError) {
                    for (name, secret) in parts.secrets { try await secrets.write(secret, name, of: "file") }
                    let request = TunnelStartRequest(
                        configuration: try JSONValue(encoding: parts.configuration).text(), profileID: "file")
                    try await host.start(request)
                    for await update in host.statusUpdates() where update.status == .disconnected {
                        say(update.error.map { "error: \($0)" } ?? "the tunnel has ended")
                        exit(update.error == nil ? 0 : 1)
                    }
                } catch {
                    say("error: \(error)")
                    exit(1)
                }
            }
            return host
        }

        private static func say(_ text: String) {
            let line = Array((text + "\n").utf8)
            unsafe _ = write(2, line, line.count)
        }
    }
#else
    /// Elsewhere the system runs tunnels: see Examples/AppleTunnel.
    @main
    enum LinuxTunnel {
        static func main() { print("this example is for Linux; see Examples/AppleTunnel") }
    }
#endif
