// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import Gateway
    import TunnelSystem

    /// The work of `culvert gateway restore`.
    struct RestoreTool: Sendable {
        var console: Console
        var directory: String

        func run(_ file: String, _ options: PassphraseOptions, owner: String?) -> Int32 {
            do throws(CommandFailure) {
                let passphrase = try options.input.read(isNew: false)
                let descriptor = OwnedDescriptor(SystemCall.open(file, O_RDONLY))
                guard descriptor.number >= 0,
                    let bytes = SystemCall.readAll(descriptor.number, limit: 1 << 31)
                else { throw CommandFailure("\(file): \(SystemError.words(errno))", status: ExitStatus.usage) }
                try FolderOwner.makeParent(of: directory, owner: owner)
                let tool = self
                return SignalledRun.run {
                    do throws(CommandFailure) {
                        try await tool.restore(bytes, passphrase, owner)
                        return ExitStatus.success
                    } catch {
                        return error.report(to: tool.console)
                    }
                }
            } catch {
                return error.report(to: console)
            }
        }

        private func restore(_ bytes: [UInt8], _ passphrase: [UInt8], _ owner: String?) async throws(CommandFailure) {
            do throws(GatewayDirectoryError) {
                _ = try await GatewayBackup.restore(bytes, to: directory, passphrase: passphrase)
            } catch {
                throw CommandFailure(error)
            }
            if let owner { try FolderOwner.changeOwner(of: directory, to: owner) }
            console.line("the gateway is in \(directory); next: culvert gateway run")
        }
    }
#endif
