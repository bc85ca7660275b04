// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Gateway
    import Provisioning
    import TunnelSystem

    /// The work of `culvert gateway key activate-backup`.
    struct BackupKeyTool: Sendable {
        var console: Console
        var directory: String
        var json: Bool

        func run(_ file: String, newBackupKey: String) -> Int32 {
            let tool = self
            return SignalledRun.run {
                do throws(CommandFailure) {
                    try await tool.activate(file, newBackupKey: newBackupKey)
                    return ExitStatus.success
                } catch {
                    return error.report(to: tool.console)
                }
            }
        }

        func activate(_ file: String, newBackupKey: String) async throws(CommandFailure) {
            // The folder belongs to the gateway's user, the two keys to root.
            let rights = FolderOwner.Rights(of: directory)
            try rights.assume()
            defer { rights.restore() }
            let pins: GatewayDirectory.Pins
            do throws(GatewayDirectoryError) {
                let folder = try GatewayDirectory(existing: directory)
                pins = try await folder.recoverAPIKey(file, newBackupKey: newBackupKey, .local(getuid())) {
                    (access) throws(GatewayDirectoryError) in
                    rights.restore()
                    let outcome = Result(catching: access)
                    do throws(CommandFailure) { try rights.assume() } catch {
                        throw GatewayDirectoryError(error.reason)
                    }
                    try outcome.get()
                }
            } catch {
                throw CommandFailure(error)
            }
            show(pins, file, newBackupKey)
        }

        private func show(_ pins: GatewayDirectory.Pins, _ file: String, _ newBackupKey: String) {
            if json {
                let document: JSON = [
                    "backupKey": .string(newBackupKey), "directory": .string(directory),
                    "pins": .array([pins.active, pins.backup].map { .string($0.description) }),
                ]
                return console.line(document.text)
            }
            console.line("The backup key is now the active key of the device API. Pins, active and backup:")
            for pin in [pins.active, pins.backup] { console.line("  \(pin)") }
            console.line("The new backup key is in \(newBackupKey) and nowhere else. Move it off this machine.")
            console.line("Devices get the new pins when they renew. Invitations that are not used yet remain valid.")
            console.line()
            console.line("Next:")
            console.line("  1. culvert gateway run, or: systemctl start culvert-gateway")
            console.line("  2. culvert gateway backup NEW, because older backups contain the old key")
            console.line("  3. remove the older backups and \(file), whose key the gateway's folder contains now")
        }
    }
#endif
