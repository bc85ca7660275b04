// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

extension TunnelError {
    /// Converts the error of a login into the error of a start.
    init(_ error: CredentialError) {
        switch error {
        case .refused(let refusal) where refusal.reason == .credentials:
            self.init(.authenticationFailed, error.description, fix: "check login and password")
        case .refused: self.init(.serverUnreachable, error.description, fix: "try again later")
        case .unreachable: self.init(.serverUnreachable, error.description)
        case .keyMismatch: self.init(.keyMismatch, error.description)
        case .invalidServerKey, .invalidLogin: self.init(.configurationInvalid, error.description)
        case .invalidResponse: self.init(.providerFailed, error.description)
        }
    }

    /// The error of a start whose server has a closed port.
    static func closedPort(of server: String, _ endpoints: [Endpoint]) -> TunnelError {
        TunnelError(
            .serverUnreachable,
            "the UDP port of \(server) is closed (refused by \(endpoints.map(\.description).joined(separator: ", ")))",
            fix:
                "check the server's address and port, that the server runs, and that no firewall rejects UDP packets to it"
        )
    }
}

extension CredentialError {
    /// Whether a repetition with the same configuration would fail in the same way.
    var isFinal: Bool {
        switch self {
        case .refused(let refusal): refusal.reason == .credentials
        case .invalidServerKey, .invalidLogin: true
        case .unreachable, .keyMismatch, .invalidResponse: false
        }
    }
}

extension CredentialClientDevice {
    /// Carries the tunnel's packets from now on.
    func attach(tun: any TunDevice) throws(TunnelError) {
        do throws(TunnelIOError) {
            try attach(tun)
        } catch {
            throw TunnelError(.providerFailed, "cannot use the tunnel's interface: \(error)")
        }
    }

    /// Closes the device on a separate thread, because closing waits for threads, and a task must not block.
    func end() async { await LoopThread.run(name: "culvert-stop") { self.close() } }
}

extension [UInt8] {
    /// The bytes without a final line break.
    var trimmingLastLineBreak: ArraySlice<UInt8> {
        var bytes = self[...]
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        return bytes
    }
}
