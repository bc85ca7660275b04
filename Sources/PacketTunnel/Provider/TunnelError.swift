// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// An error of a tunnel, with a code for programs and a text for people. It can be sent between processes.
public struct TunnelError: Error, Codable, Hashable, Sendable {
    /// The kinds of failure. A kind that this version does not know decodes as ``unknown``.
    public enum Code: String, Codable, Hashable, Sendable, CaseIterable {
        /// The tunnel is starting or up already.
        case alreadyRunning
        /// The operation needs a tunnel that is up.
        case notRunning
        /// The tunnel was stopped while it was starting.
        case stopped
        /// The start did not end by its deadline.
        case startTimedOut
        /// The configuration is missing, or the provider cannot use it.
        case configurationInvalid
        /// The provider's settings are not valid; ``TunnelError/problems`` lists every problem.
        case settingsInvalid
        /// The host could not apply the settings.
        case settingsFailed
        /// The host did not apply the settings by its deadline.
        case settingsTimedOut
        /// The operation needs settings, and none are applied yet.
        case settingsMissing
        /// A secret is missing or cannot be read.
        case secretUnavailable
        /// Profiles could not be read or written.
        case storage
        /// There is no such profile.
        case profileNotFound
        /// The profile is disabled.
        case profileDisabled
        /// The system does not permit the operation.
        case permissionDenied
        /// The server's name has no address.
        case nameResolutionFailed
        /// The server does not answer.
        case serverUnreachable
        /// A server answers, but a key does not match: the server's public key or the preshared key.
        case keyMismatch
        /// The server refused the credentials.
        case authenticationFailed
        /// There is no network.
        case networkUnavailable
        /// No data arrives through the tunnel, and reconnecting did not help.
        case connectivityLost
        /// The batch for reading packets is too small for some packets.
        case batchTooSmall
        /// The packet flow, or its owner, is closed.
        case closed
        /// The provider failed in another way.
        case providerFailed
        /// The host failed in another way.
        case hostFailed
        /// The system's tunnel service does not answer.
        case channelFailed
        /// The server ended the session deliberately. A new session could end another one that the server prefers.
        case sessionTerminated
        /// A kind that this version does not know.
        case unknown
    }

    /// The kind of failure.
    public var code: Code
    /// The failure and its input, as a sentence without a full stop. It never contains a secret.
    public var message: String
    /// The remedy, in the same form; empty if there is none.
    public var fix: String
    /// The fields that are wrong, for ``Code/settingsInvalid``.
    public var problems: [SettingsProblem]
    /// The stop reason of a tunnel that this error ends.
    public var stopReason: StopReason

    /// Creates an error. Without a stop reason, it uses the one that corresponds to `code`.
    public init(
        _ code: Code, _ message: String, fix: String = "", problems: [SettingsProblem] = [],
        stopReason: StopReason? = nil
    ) {
        self.code = code
        self.message = message
        self.fix = fix
        self.problems = problems
        self.stopReason = stopReason ?? code.stopReason
    }

    /// The error for settings with these problems.
    public static func invalidSettings(_ problems: [SettingsProblem]) -> TunnelError {
        TunnelError(
            .settingsInvalid, "the tunnel's settings have \(problems.count == 1 ? "a problem" : "problems")",
            fix: "correct the fields that are listed", problems: problems)
    }
}

extension TunnelError: CustomStringConvertible {
    /// Message, fix and fields in one line.
    public var description: String {
        var text = message
        if !problems.isEmpty { text += " (" + problems.map(\.description).joined(separator: "; ") + ")" }
        return fix.isEmpty ? text : "\(text); \(fix)"
    }
}

extension TunnelError: HandlerFailureConvertible {
    /// The error with its code, for another process.
    public var handlerFailure: HandlerFailure { HandlerFailure(code: code.rawValue, message: description) }
}

extension TunnelError: StorageFailure {
    package init(_ problem: StorageProblem) {
        self.init(problem.isDenied ? .permissionDenied : .storage, problem.reason, fix: problem.fix)
    }
}

extension TunnelError.Code {
    /// Decodes a code from its word. A word of a later version results in ``unknown``.
    public init(from decoder: any Decoder) throws {
        self = Self(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .unknown
    }

    fileprivate var stopReason: StopReason {
        switch self {
        case .stopped: .userInitiated
        case .startTimedOut, .serverUnreachable, .nameResolutionFailed: .connectionFailed
        case .configurationInvalid, .settingsInvalid, .secretUnavailable, .keyMismatch: .configurationFailed
        case .authenticationFailed, .sessionTerminated: .authenticationCanceled
        case .networkUnavailable: .noNetworkAvailable
        case .connectivityLost: .connectivityLost
        case .profileDisabled: .configurationDisabled
        case .profileNotFound: .configurationRemoved
        default: .providerFailed
        }
    }
}
