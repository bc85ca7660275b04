// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import TrustPinning

/// What a server presented in its handshake, before anything of it was believed.
public struct PresentedChain: Sendable {
    /// The certificates in DER, the server's own first, in the order in which they came.
    public var certificates: [[UInt8]]
    /// The host that was asked for: a name in lower case without a dot at its end, or an IP address.
    public var host: String
    /// The TCP port that was connected to.
    public var port: Int

    /// A chain as it was presented.
    public init(certificates: [[UInt8]], host: String, port: Int) {
        self.certificates = certificates
        self.host = host
        self.port = port
    }
}

/// Judges the chain of a server. Everything that TLS libraries check otherwise is up to it: the path to a root, the
/// host's name, the dates, the pins.
public typealias ServerVerifier = @Sendable (PresentedChain) async -> ServerVerdict
