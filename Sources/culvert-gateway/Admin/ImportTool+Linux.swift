// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import Gateway
    import NetworkAddresses

    /// The work of `culvert gateway import-credential-server`.
    struct ImportTool: Sendable {
        var console: Console
        var directory: String

        func run(_ server: String) -> Int32 {
            do throws(CommandFailure) {
                // Change the user before any thread is started, because other threads would keep their user.
                try FolderOwner.become(directory, keeping: 0)
                let tool = self
                return SignalledRun.run {
                    do throws(CommandFailure) {
                        try await tool.importServer(server)
                        return ExitStatus.success
                    } catch {
                        return error.report(to: tool.console)
                    }
                }
            } catch {
                return error.report(to: console)
            }
        }

        func importServer(_ server: String) async throws(CommandFailure) {
            do throws(GatewayDirectoryError) {
                let gateway = try GatewayDirectory(existing: directory)
                show(try await CredentialServerImport.run(try CredentialServerFolder(server), into: gateway))
            } catch {
                throw CommandFailure(error)
            }
        }

        private func show(_ outcome: CredentialServerImport.Outcome) {
            console.line("new users: \(outcome.added.count)")
            if !outcome.present.isEmpty { console.line("existing users: \(outcome.present.count)") }
            console.line("The gateway has the server's key and pre-shared key, and the login tunnel is on.")
            let settings = outcome.settings
            console.line(
                "Clients reach it at UDP port \(settings.loginTunnel.port), interface \(settings.loginTunnel.interface), and get addresses of \(settings.networks.map(\.description).joined(separator: " and "))."
            )
            for difference in outcome.differences { console.line("differs from the server: \(difference)") }
            console.line(
                "Users without fixed addresses get new ones; former addresses in cooldown: \(outcome.resting)"
            )
            console.line("Next: culvert gateway run")
        }
    }
#endif
