// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import WireGuardTunnel

/// The folder of profiles and their secrets, which only its owner can read.
struct ProfileFolder: Sendable {
    /// The word for this program's provider in profiles.
    static let provider = "wireguard"
    /// The word for the login tunnel's provider in profiles.
    static let loginProvider = "credential"
    static let standard = ProfileDirectory.standard

    var path: String = standard

    /// Whether the folder exists, even if this user may not read it.
    var exists: Bool { unsafe access(path, F_OK) == 0 || errno != ENOENT }

    private var directory: ProfileDirectory { ProfileDirectory(path: path) }

    /// The secrets, in a folder of mode 0700.
    func secrets() throws(TunnelError) -> FileSecretStore { try directory.secrets() }

    /// Reads the profiles, and returns their manager and the errors of those that cannot be read.
    func manager() async throws(TunnelError) -> (manager: TunnelManager, errors: [TunnelError]) {
        try await directory.manager()
    }

    /// The profile of this name; `nil` if there is none, or no folder.
    func find(_ name: String) async throws(CommandProblem) -> TunnelProfile? {
        guard exists else { return nil }
        do throws(TunnelError) {
            return try await directory.profiles().loadAll().profiles.first { $0.name == name }
        } catch {
            throw CommandProblem(error)
        }
    }
}

/// The option for the folder of profiles.
struct ProfileOptions: ParsableArguments {
    @Option(
        name: .customLong("directory"),
        help: ArgumentHelp("The folder of profiles and their secrets.", valueName: "folder"), completion: .directory)
    var path = ProfileFolder.standard

    /// The folder, by an absolute path.
    var folder: ProfileFolder {
        ProfileFolder(path: StandardStream.absolute(path))
    }
}

extension StandardStream {
    /// The path, absolute. Its file need not exist.
    static func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : workingDirectory + "/" + path }

    /// The folder that relative paths start from.
    static var workingDirectory: String {
        guard let path = unsafe getcwd(nil, 0) else { return "." }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }
}
