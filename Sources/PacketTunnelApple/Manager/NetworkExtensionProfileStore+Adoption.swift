// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel

// Configurations that the app saved before it used this package.
extension NetworkExtensionProfileStore {
    /// Converts the app's configurations without a profile, as the options specify. The system does not ask the user for
    /// permission again, because a converted configuration replaces the saved one.
    ///
    /// A configuration that cannot be converted stays unchanged, and the next load tries again.
    /// - Returns: The errors, one for each configuration that could not be converted.
    func adoptExisting() async throws(TunnelError) -> [TunnelError] {
        guard let adopt = options.adoptConfiguration else { return [] }
        // A second load must not convert a configuration twice.
        await adoptions.begin()
        defer { adoptions.end() }
        let all = try await SystemConfiguration.loadAll()
        var names = Set(
            all.filter { $0.profileID != nil && isOurs($0) }.compactMap(\.manager.localizedDescription))
        var ids = Set(all.compactMap(\.profileID))
        var errors: [TunnelError] = []
        for configuration in all where configuration.profileID == nil && isOurs(configuration) {
            guard let existing = ExistingConfiguration(configuration.manager) else { continue }
            do throws(TunnelError) {
                switch try existing.decision(adopt) {
                case .leave: continue
                case .remove: try await configuration.remove()
                case .adopt(var profile, let secrets):
                    // Its secrets would replace those of the other profile.
                    guard !ids.contains(profile.id) else {
                        throw TunnelError(
                            .configurationInvalid,
                            "cannot adopt '\(existing.name)': another configuration has the profile '\(profile.id)'",
                            fix: "give each profile its own ID, or remove the configuration")
                    }
                    profile.name = freeName(profile.name, names)
                    try await convert(configuration, to: profile, secrets)
                    names.insert(profile.name)
                    ids.insert(profile.id)
                }
            } catch {
                errors.append(error)
            }
        }
        return errors
    }

    private func isOurs(_ configuration: SystemConfiguration) -> Bool {
        configuration.bundleIdentifier.map {
            $0 == options.providerBundleIdentifier || options.formerProviderBundleIdentifiers.contains($0)
        } ?? false
    }

    /// Returns a name that no other profile has. Other libraries permit equal names.
    private func freeName(_ name: String, _ names: Set<String>) -> String {
        guard names.contains(name) else { return name }
        return (2...).lazy.map { "\(name) \($0)" }.first { !names.contains($0) } ?? name
    }

    /// Saves the profile in a configuration that had none. After an error nothing has changed.
    private func convert(
        _ configuration: SystemConfiguration, to profile: TunnelProfile, _ new: [String: SecretBytes]
    ) async throws(TunnelError) {
        let problems = profile.validate()
        guard problems.isEmpty else { throw .invalidSettings(problems) }
        if !new.isEmpty, secrets == nil {
            throw TunnelError(
                .storage, "cannot save the secrets of '\(profile.name)': the profile store has no store for secrets",
                fix: "set 'secrets' when the profile store is created")
        }
        try await saving(profile.id) { () throws(TunnelError) in
            _ = channel(profile.id, configuration)
            do throws(TunnelError) {
                for (name, secret) in new.sorted(by: { $0.key < $1.key }) {
                    try await secrets?.write(secret, name, of: profile.id)
                }
                try await write(profile, to: configuration, setsOnDemand: true, isConverted: true)
            } catch {
                drop(profile.id)
                do throws(TunnelError) {
                    try await secrets?.removeAll(of: profile.id)
                } catch {
                    // Ignore errors of the cleanup: the caller needs the first error.
                }
                throw error
            }
        }
    }
}
