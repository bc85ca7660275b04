// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import PacketTunnelLinux
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
                let tunnel = try load(interface: CommandLine.arguments[1], file: CommandLine.arguments[2])
                let life = Task.detached { exit(await live(tunnel)) }
                while true {
                    var number: Int32 = 0
                    unsafe sigwait(&signals, &number)
                    life.cancel()
                }
            } catch {
                say("error: \(error)")
                exit(1)
            }
        }

        private struct Tunnel: Sendable {
            var host: LinuxHost<WireGuardTunnelProvider>
            var request: TunnelStartRequest
            var store: MemorySecretStore
            var secrets: [String: SecretBytes]
        }

        private static func load(interface: String, file: String) throws -> Tunnel {
            let text = String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: file)
            if !parts.ignoredKeys.isEmpty { say("left out: \(parts.ignoredKeys.joined(separator: ", "))") }
            // What of the file is not for the provider, but for the host.
            var options = LinuxHostOptions(routeTable: parts.configuration.routeTable)
            if let mark = parts.configuration.fwMark, mark != 0 { options.mark = mark }
            let store = MemorySecretStore()
            let host = try LinuxHost<WireGuardTunnelProvider>(
                name: interface, options: options, secrets: store,
                logger: Logger(label: interface, factory: { StandardErrorLogHandler(label: $0) }))
            let request = TunnelStartRequest(
                configuration: try JSONValue(encoding: parts.configuration).text(), profileID: "file")
            return Tunnel(host: host, request: request, store: store, secrets: parts.secrets)
        }

        /// Runs the tunnel until it ends, or the task is cancelled, and says with which status the program does.
        private static func live(_ tunnel: Tunnel) async -> Int32 {
            let host = tunnel.host
            var status: Int32 = 0
            do throws(TunnelError) {
                for (name, secret) in tunnel.secrets { try await tunnel.store.write(secret, name, of: "file") }
                try await host.start(tunnel.request)
                for await update in host.statusUpdates() where update.status == .disconnected {
                    say(update.error.map { "error: \($0)" } ?? "the tunnel has ended")
                    status = update.error == nil ? 0 : 1
                    break
                }
            } catch {
                say("error: \(error)")
                status = 1
            }
            // A start that fails says so before the network is as it was, which is when this returns. In a task of its own, which
            // nobody cancels.
            await Task { await host.stop(.userInitiated) }.value
            return status
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
