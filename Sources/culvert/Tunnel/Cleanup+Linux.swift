// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux

    /// Undoes what tunnels have left behind.
    enum Cleanup {
        /// Does so for tunnels whose journals are in this folder.
        static func run(_ names: [String], _ runtime: RuntimeDirectory, console: Console) -> Int32 {
            do throws(CommandProblem) {
                for name in names where !TunnelName.isValid(name) { throw TunnelName.badName(name) }
                // Says so where the folder may not be read.
                let left = try runtime.tunnels()
                if names.isEmpty, left.isEmpty {
                    console.line("nothing to undo")
                    return ExitStatus.success
                }
            } catch {
                return error.tell(console)
            }
            return run(names, options: LinuxHostOptions(journalFolder: runtime.path), console: console) {
                runtime.removeSocket($0)
            }
        }

        /// - Parameter names: the tunnels; empty for every one that does not run.
        /// - Returns: the exit status.
        static func run(
            _ names: [String], options: LinuxHostOptions = LinuxHostOptions(), console: Console,
            done: (_ name: String) -> Void = { _ in }
        ) -> Int32 {
            var status = ExitStatus.success
            for name in names.isEmpty ? LinuxPlatform.tunnels(options: options) : names {
                do throws(LinuxNetworkError) {
                    let undone = try LinuxPlatform.cleanUp(name: name, options: options)
                    done(name)
                    console.line(undone.isEmpty ? "\(name): nothing to undo" : "\(name): undone:")
                    for change in undone { console.line("  \(change)") }
                } catch {
                    // Asked for all, those that run are none of them.
                    if names.isEmpty, case .tunnelRunning = error.code { continue }
                    console.problem("error: \(error)")
                    status = ExitStatus.failure
                }
            }
            return status
        }
    }
#endif
