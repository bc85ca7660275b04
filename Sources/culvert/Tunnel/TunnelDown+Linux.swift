// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import PacketTunnel

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Takes a tunnel down.
    enum TunnelDown {
        /// Ends a tunnel's process, or cleans up after one that died.
        /// - Returns: what was done, for people.
        static func run(_ name: String, _ runtime: RuntimeDirectory) async throws(CommandProblem) -> String {
            let channel = UnixTunnelChannel(path: runtime.socket(name))
            let report: ServiceReport
            do throws(MessageError) {
                report = try await channel.messages.send(ServiceReportRequest())
            } catch {
                guard error == .closed else { throw CommandProblem(unanswered(error, name)) }
                return try cleanUp(name, runtime)
            }
            do throws(TunnelError) {
                try await channel.stop(.userInitiated)
            } catch {
                throw CommandProblem(error, of: name)
            }
            await channel.serviceEnd()
            return "down; it was \(report.status.status.rawValue)"
        }

        private static func unanswered(_ error: MessageError, _ name: String) -> TunnelError {
            if case .notPermitted(let reason) = error {
                return TunnelError(.permissionDenied, reason, fix: "run as root")
            }
            return TunnelError(
                .channelFailed, "the process of tunnel '\(name)' does not answer: \(error)",
                fix: "kill it and run this again; see culvert log \(name)")
        }

        /// Undoes what a tunnel left whose process died.
        private static func cleanUp(_ name: String, _ runtime: RuntimeDirectory) throws(CommandProblem) -> String {
            let isKnown = try runtime.tunnels().contains(name)
            guard isKnown else {
                throw CommandProblem(ExitStatus.notFound, "tunnel '\(name)' is not up")
            }
            let undone: [String]
            do throws(LinuxNetworkError) {
                undone = try LinuxPlatform.cleanUp(
                    name: name, options: LinuxHostOptions(journalFolder: runtime.path))
            } catch {
                let isDenied = error.errno == EPERM || error.errno == EACCES
                throw CommandProblem(
                    isDenied ? ExitStatus.notPermitted : ExitStatus.failure, "\(name): \(error)")
            }
            removeSocket(runtime.socket(name))
            let lines = undone.map { "\n  undone: \($0)" }.joined()
            return "its process had died; cleaned up" + lines
        }

        /// Removes the socket of a process that died, unless another one has taken its place.
        private static func removeSocket(_ path: String) {
            let lock = unsafe open("\(path).lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
            guard lock >= 0 else { return }
            defer { close(lock) }
            if flock(lock, LOCK_EX | LOCK_NB) == 0 { unsafe _ = unlink(path) }
        }
    }
#endif
