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

        func run(_ command: RestoreCommand) -> Int32 {
            do throws(CommandFailure) {
                let passphrase = try command.passphrase.input.read(isNew: false)
                let (file, owner, old) = (command.file, command.owner, command.revokeSince)
                let descriptor = SharedDescriptor(OwnedDescriptor(SystemCall.open(file, O_RDONLY)))
                guard descriptor.number >= 0 else {
                    throw CommandFailure("\(file): \(SystemError.words(errno))", status: ExitStatus.usage)
                }
                try FolderOwner.makeParent(of: directory, owner: owner)
                let tool = self
                return SignalledRun.run {
                    do throws(CommandFailure) {
                        try await tool.restore(descriptor, passphrase, owner, old)
                        return ExitStatus.success
                    } catch {
                        return error.report(to: tool.console)
                    }
                }
            } catch {
                return error.report(to: console)
            }
        }

        private func restore(
            _ file: SharedDescriptor, _ passphrase: [UInt8], _ owner: String?, _ old: String?
        ) async throws(CommandFailure) {
            let restored: RestoredGateway
            do throws(GatewayDirectoryError) {
                restored = try await GatewayBackup.restore(
                    reading: file.number, to: directory, passphrase: passphrase, revokingSince: old)
            } catch {
                throw CommandFailure(error)
            }
            if let owner { try FolderOwner.changeOwner(of: directory, to: owner) }
            report(restored, old)
        }

        // MARK: - The report

        private func report(_ restored: RestoredGateway, _ old: String?) {
            console.line("the gateway is in \(directory)")
            console.line("")
            console.line(Self.age(restored.lastEntry))
            if let later = restored.later, let old {
                report(later, old)
            } else {
                console.line("Changes since then are missing. Access that ended since then is valid again:")
                console.line("  users that were removed or disabled, and replaced passwords")
                console.line("  devices that were revoked or disabled, and replaced keys")
                console.line("  tokens that were revoked")
                console.line("  invitations that were used or revoked")
            }
            let counts = restored.counts
            console.line(
                "The gateway has \(counts.users) users, \(counts.devices) devices, \(counts.tokens) valid tokens "
                    + "and \(counts.openInvitations) open invitations.")
            console.line("")
            console.line("Next:")
            for (index, step) in steps(old).enumerated() { console.line("  \(index + 1). \(step)") }
        }

        private static func age(_ entry: AuditEntry?) -> String {
            guard let record = entry?.record else { return "The audit log of the backup is empty." }
            let time = record.at.formatted(.iso8601)
            return record.action == .backupMade
                ? "The backup was made at \(time)." : "The latest change in the backup is of \(time)."
        }

        private func report(_ later: LaterChanges, _ old: String) {
            guard let latest = later.latest else {
                return console.line("The audit log in \(old) has no later entry.")
            }
            console.line("The audit log in \(old) ends at \(latest.formatted(.iso8601)).")
            if let begins = later.begins {
                console.line(
                    "The log begins at \(begins.formatted(.iso8601)): access that ended before is valid again.")
            }
            console.line(later.revocations.isEmpty ? "No access of the backup has ended since." : "Ended again:")
            for revocation in later.revocations {
                let name = revocation.name.isEmpty ? "" : " (\(revocation.name))"
                console.line("  \(revocation.subject)\(name): \(revocation.effect.rawValue)")
            }
            let lost = later.entries.filter { Self.additions.contains($0.key) }.sorted {
                $0.key.rawValue < $1.key.rawValue
            }
            guard !lost.isEmpty else { return }
            console.line(
                "Lost, by the action in that log: " + lost.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
        }

        /// The actions after which a restored gateway lacks something.
        private static let additions: Set<AuditRecord.Action> = [
            .userAdded, .deviceEnrolled, .deviceAdded, .tokenAdded, .invitationAdded, .rulesChanged,
            .serverKeyAnnounced, .serverKeySwitched,
        ]

        private func steps(_ old: String?) -> [String] {
            let start = "culvert gateway run, or: systemctl start culvert-gateway"
            let compare =
                "compare the lists with the users, devices, tokens and invitations that must be valid, and remove or revoke "
                + "the others: culvert gateway user list, peer list, token list, invitation list"
            let invite = "invite again the users whose devices enrolled after the backup: culvert gateway invite LOGIN"
            guard old == nil else { return [start, compare, invite] }
            let found = earlierFolders
            let condition =
                found.isEmpty
                ? "if you have the earlier folder of this gateway"
                : "if \(found.joined(separator: " or ")) is the earlier folder of this gateway"
            return [
                "\(condition): remove \(directory), and repeat this command with "
                    + "--revoke-since \(found.first ?? "FOLDER"), which ends such access again",
                "otherwise, start it without a tunnel: culvert gateway run --no-tun", compare,
                "stop it, then: \(start)", invite,
            ]
        }

        /// The other folders with the same parent that contain a gateway.
        private var earlierFolders: [String] {
            guard let slash = directory.lastIndex(of: "/") else { return [] }
            let parent = String(directory[..<slash])
            let folders = (FolderContents.names(parent.isEmpty ? "/" : parent) ?? []).sorted().map { "\(parent)/\($0)" }
            return folders.filter {
                $0 != directory && FileStatus(of: "\($0)/gateway.db", followsLinks: false)?.kind == .file
            }
        }
    }
#endif
