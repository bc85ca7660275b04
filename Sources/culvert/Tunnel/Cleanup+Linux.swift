// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux

    /// Undoes the changes that tunnels have left.
    enum Cleanup {
        /// Undoes the changes of tunnels whose journals are in the folder of `runtime`.
        static func run(_ names: [String], _ runtime: RuntimeDirectory, console: Console) -> Int32 {
            do throws(CommandProblem) {
                for name in names where !TunnelName.isValid(name) { throw TunnelName.badName(name) }
                // Fails if the folder may not be read.
                let left = try runtime.tunnels()
                if names.isEmpty, left.isEmpty {
                    console.line("nothing to undo")
                    return ExitStatus.success
                }
            } catch {
                return error.report(to: console)
            }
            return run(
                names, options: LinuxHostOptions(journalFolder: runtime.path), console: console,
                process: { LockHolder.find(runtime.socketLock($0))?.process }, done: { runtime.removeSocket($0) })
        }

        /// - Parameters:
        ///   - names: the tunnels; empty for every one that does not run.
        ///   - process: The process that serves a tunnel's socket. The owner that a journal names may be wrong: the journal may
        ///     be an older one, or another time namespace may give the process another start time.
        /// - Returns: the exit status.
        static func run(
            _ names: [String], options: LinuxHostOptions = LinuxHostOptions(), console: Console,
            process: (_ name: String) -> Int32? = { _ in nil },
            done: (_ name: String) -> Void = { _ in }
        ) -> Int32 {
            var status = ExitStatus.success
            for name in names.isEmpty ? LinuxPlatform.tunnels(options: options) : names {
                do throws(LinuxNetworkError) {
                    if let process = process(name) {
                        throw LinuxNetworkError(.tunnelRunning(name: name, processID: process))
                    }
                    let undone = try LinuxPlatform.cleanUp(name: name, options: options)
                    done(name)
                    console.line(undone.isEmpty ? "\(name): nothing to undo" : "\(name): undone:")
                    for change in undone { console.line("  \(change)") }
                } catch {
                    // Without names, tunnels that run are skipped.
                    if names.isEmpty, case .tunnelRunning = error.code { continue }
                    console.problem("error: \(error)")
                    status = ExitStatus.failure
                }
            }
            return status
        }
    }
#endif
