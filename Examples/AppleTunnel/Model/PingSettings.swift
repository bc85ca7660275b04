// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// The detection of a dead tunnel and its consequences, as text fields of a form.
public struct PingSettings: Equatable, Sendable {
    /// Whether the tunnel is watched at all.
    public var isWatched = true
    /// The address or name to ping through the tunnel; empty requests a handshake from the server instead.
    public var address = ""
    /// Seconds between checks for received data.
    public var interval = "10"
    /// The number of checks without data before pings are sent, and again before the tunnel counts as dead.
    public var attempts = "3"
    /// Seconds between two pings.
    public var pingInterval = "2"
    /// Whether a dead tunnel simply stops, instead of being healed again and again.
    public var stopsWhenDead = false

    /// The usual settings.
    public init() {}

    /// The settings of a profile.
    public init(_ options: ConnectivityOptions) {
        isWatched = options.isEnabled
        address = options.pingAddress ?? ""
        interval = Self.text(options.connectivityInterval)
        attempts = "\(options.maxConnectionAttempts)"
        pingInterval = Self.text(options.pingInterval)
        stopsWhenDead = options.endWhenDead == .atOnce
    }

    private static func text(_ seconds: Double) -> String {
        Int(exactly: seconds).map(String.init) ?? "\(seconds)"
    }

    /// Stores the fields in the options of a profile; other options stay unchanged.
    func apply(to options: inout ConnectivityOptions) throws(TunnelError) {
        options.isEnabled = isWatched
        options.pingAddress = address.isEmpty ? nil : address
        options.connectivityInterval = try Self.number(interval, "the time between checks")
        options.maxConnectionAttempts = try Self.number(attempts, "the number of looks")
        options.pingInterval = try Self.number(pingInterval, "the time between two pings")
        if stopsWhenDead != (options.endWhenDead == .atOnce) { options.endWhenDead = stopsWhenDead ? .atOnce : .never }
    }

    static func number<Number: LosslessStringConvertible>(
        _ text: String, _ name: String
    ) throws(TunnelError) -> Number {
        guard let number = Number(text) else {
            throw TunnelError(.configurationInvalid, "\(name) is '\(text)'", fix: "write a number")
        }
        return number
    }
}
