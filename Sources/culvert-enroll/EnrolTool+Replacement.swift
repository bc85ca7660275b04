// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import Provisioning
import TunnelSystem
import WireGuardCore

extension EnrolTool {
    /// Enrols a new device, and then replaces the configuration of a profile by that of the device.
    ///
    /// Until the gateway has accepted the new device, the old profile and its secrets stay unchanged. The new secret
    /// gets another name, and the profile's file contains the name of the secret that the profile uses. That file is
    /// replaced in one step, so a crash leaves either the old profile with its secrets or the new profile with its
    /// secret. A repetition with the same invitation sends the same key and credential. If only the gateway's reply was
    /// lost, the gateway gives the same answer.
    /// - Parameter fresh: The enrolment to start with, unless an enrolment with the same invitation was started
    ///   earlier.
    /// - Throws: ``TunnelError`` with a message that the profile is unchanged.
    func replace(
        _ old: TunnelProfile, with configuration: EnrolledTunnelConfiguration, _ fresh: DeviceEnrolment,
        _ manager: TunnelManager
    ) async throws(TunnelError) -> DeviceEnrolment {
        var configuration = configuration
        let store = try directory.secrets()
        let names = try await store.names(of: old.id)
        let begun = await begun(fresh.token, old, names, store)
        let enrolment = begun?.enrolment ?? fresh
        configuration.secretName = begun?.name ?? Self.unusedName(names)
        let secretName = configuration.secretName
        if begun?.name == nil { try await store.write(enrolment.secret, secretName, of: old.id) }

        // Keep the secret with the invitation until the profile uses it, because a repetition after a crash needs it.
        let keeper = try keeper(configuration, keepingFor: nil)
        let done: DeviceEnrolment
        do throws(ProvisioningError) {
            done = try await keeper.refreshed(enrolment)
        } catch {
            let again = error.isPending ? "run the command again, with the same invitation" : nil
            if again == nil { await remove([secretName], of: old, store) }
            throw Self.unchanged(old.name, error.tunnelError, again)
        }
        configuration.deviceID = done.grant?.device.id
        var profile = old
        do throws(TunnelError) {
            try configuration.set(in: &profile)
            try await manager.update(profile)
        } catch {
            throw Self.unchanged(old.name, error, "run the command again, with the same invitation")
        }
        do throws(TunnelError) {
            try await store.write(done.secret, secretName, of: old.id)
        } catch {
            // Only warn: the next start enrols with the stored secret and gets the same answer.
            console.problem("warning: cannot store the grant: \(error); the next start requests it again")
        }
        await remove(names.filter { $0 != secretName }, of: old, store)
        return done
    }

    /// Locks the folder of profiles, which is made if it is missing.
    /// - Returns: The descriptor that holds the lock until it is closed.
    /// - Throws: ``EnrolProblem`` if another program has the lock.
    func replacementLock() throws(EnrolProblem) -> Int32 {
        let folder = directory.path + "/profiles"
        do throws(TunnelError) {
            // This also makes the outer folder, with the same mode.
            _ = try directory.secrets()
            _ = try directory.profiles()
            let opened = SystemCall.open(folder, O_RDONLY | O_DIRECTORY)
            guard opened >= 0 else {
                throw TunnelError(.storage, "cannot open '\(folder)': \(SystemError.words(errno))")
            }
            let reason = FileLock.acquire(opened, within: .zero)
            guard reason == 0 else {
                SystemCall.close(opened)
                throw reason == EWOULDBLOCK
                    ? TunnelError(
                        .storage, "another program is replacing a profile in '\(directory.path)'",
                        fix: "wait until it has ended, and run the command again")
                    : TunnelError(.storage, "cannot lock '\(folder)': \(SystemError.words(reason))")
            }
            return opened
        } catch {
            throw EnrolProblem(error)
        }
    }

    /// Returns an enrolment with this invitation's token that an earlier run has started but not completed.
    /// - Returns: The enrolment and the name of its secret; the name is `nil` if the profile itself uses that secret.
    private func begun(
        _ token: BearerSecret?, _ profile: TunnelProfile, _ names: [String], _ store: some SecretStore
    ) async -> (name: String?, enrolment: DeviceEnrolment)? {
        guard let token else { return nil }
        var used: String?
        if profile.provider == EnrolledTunnelConfiguration.provider {
            used = (try? profile.configuration.decode(EnrolledTunnelConfiguration.self))?.secretName
        }
        var found: (name: String?, enrolment: DeviceEnrolment)?
        for name in names {
            guard let secret = try? await store.read(name, of: profile.id),
                let enrolment = try? DeviceEnrolment(secret),
                enrolment.token == token
            else { continue }
            if name != used { return (name, enrolment) }
            found = (nil, enrolment)
        }
        return found
    }

    /// The first name of an enrolment's secret that is not among `names`.
    private static func unusedName(_ names: [String]) -> String {
        let first = EnrolledTunnelConfiguration.defaultSecretName
        var (name, number) = (first, 1)
        while names.contains(name) {
            number += 1
            name = "\(first)-\(number)"
        }
        return name
    }

    private func remove(_ names: [String], of profile: TunnelProfile, _ store: some SecretStore) async {
        for name in names {
            do throws(TunnelError) {
                try await store.remove(name, of: profile.id)
            } catch {
                console.problem("warning: cannot remove the unused secret '\(name)' of '\(profile.name)': \(error)")
            }
        }
    }

    private static func unchanged(_ name: String, _ reason: TunnelError, _ again: String?) -> TunnelError {
        TunnelError(
            reason.code, "\(reason.message); the profile '\(name)' is unchanged",
            fix: [reason.fix, again ?? ""].filter { !$0.isEmpty }.joined(separator: "; "), problems: reason.problems)
    }
}
