// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux
    import WireGuardTunnel

    /// Leak policies that hold without a tunnel.
    enum TunnelGuard {
        /// Holds the policy of a tunnel until it is released.
        static func hold(
            _ tunnel: LoadedTunnel, _ runtime: RuntimeDirectory, _ console: Console
        ) throws(CommandProblem) {
            let (name, policy) = (tunnel.name, tunnel.leakPolicy)
            let words = LeakPolicyName(policy).rawValue
            do throws(LinuxNetworkError) {
                try LinuxPlatform.hold(
                    policy, settings: tunnel.kind.settings, name: name, untilReleased: true,
                    options: tunnel.options(runtime))
                console.line("\(name): the leak policy '\(words)' holds until 'culvert guard \(name) --release'")
            } catch {
                guard case .tunnelRunning = error.code else { throw problem(error, name) }
                console.line(
                    "\(name): the tunnel that runs takes the leak policy '\(words)' over; it holds until "
                        + "'culvert guard \(name) --release'")
            }
        }

        /// Whether the firewall of a held policy is loaded; `nil` if only root can find out.
        static func isLoaded(_ name: String) -> Bool? {
            guard geteuid() == 0 else { return nil }
            return try? LinuxPlatform.isGuardLoaded(name: name)
        }

        /// Releases a held policy, which then lasts no longer than the tunnel.
        static func release(
            _ name: String, _ runtime: RuntimeDirectory, _ console: Console
        ) throws(CommandProblem) {
            let undone: [String]
            do throws(LinuxNetworkError) {
                undone = try LinuxPlatform.release(name: name, options: LinuxHostOptions(journalFolder: runtime.path))
            } catch {
                throw problem(error, name)
            }
            console.line("\(name): no leak policy holds without the tunnel")
            for change in undone { console.line("  undone: \(change)") }
        }

        private static func problem(_ error: LinuxNetworkError, _ name: String) -> CommandProblem {
            let isDenied = error.errno == EPERM || error.errno == EACCES
            return CommandProblem(isDenied ? ExitStatus.notPermitted : ExitStatus.failure, "\(name): \(error)")
        }
    }

    extension LoadedTunnel {
        /// The host's options besides the tunnel's settings.
        func options(_ runtime: RuntimeDirectory) -> LinuxHostOptions {
            LinuxHostOptions(
                journalFolder: runtime.path, mark: wireGuard?.fwMark.flatMap { $0 == 0 ? nil : $0 },
                routeTable: wireGuard?.routeTable)
        }
    }
#endif
