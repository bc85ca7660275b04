// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The folder in which the programs keep profiles and their secrets. Only its owner can read it.
package struct ProfileDirectory: Sendable {
    /// The default folder.
    package static let standard = "/etc/culvert"

    package var path: String

    package init(path: String = standard) { self.path = path }

    /// Opens the store of secrets, a folder of mode 0700. Call it first: it also creates the outer folder with that
    /// mode.
    package func secrets() throws(TunnelError) -> FileSecretStore { try FileSecretStore(path: path + "/secrets") }

    /// The profiles.
    package func profiles() throws(TunnelError) -> FileProfileStore { try FileProfileStore(path: path + "/profiles") }

    /// Returns a manager of the profiles, after reading them, and the errors of profiles that cannot be read.
    package func manager() async throws(TunnelError) -> (manager: TunnelManager, errors: [TunnelError]) {
        let secrets = try secrets()
        let manager = TunnelManager(store: try profiles(), secrets: secrets, runsOneAtATime: false) {
            _ throws(TunnelError) in NoTunnel()
        }
        return (manager, try await manager.load())
    }
}

/// The tunnel of a manager that only stores profiles. They run elsewhere, perhaps under another name.
private struct NoTunnel: Tunnel {
    var status: TunnelStatusUpdate { TunnelStatusUpdate(.disconnected) }

    func start(_ request: TunnelStartRequest) async throws(TunnelError) { throw Self.missing }
    func stop(_ reason: StopReason) async throws(TunnelError) {}
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? { throw Self.missing }

    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> {
        AsyncStream { continuation in
            continuation.yield(status)
            continuation.finish()
        }
    }

    private static let missing = TunnelError(.notRunning, "the tunnel runs elsewhere")
}
