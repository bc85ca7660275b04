// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel

/// The reason that a command failed, and its exit status.
struct CommandProblem: Error, Equatable {
    var status: Int32
    var text: String

    init(_ status: Int32, _ text: String) {
        self.status = status
        self.text = text
    }

    /// The error as text for people: message, fields and remedy, each on a separate line.
    init(_ error: TunnelError, of name: String? = nil, isLogin: Bool = false) {
        var lines = [(name.map { "\($0): " } ?? "") + error.message]
        lines += error.problems.map { "  \($0.field) '\($0.value)' \($0.problem): \($0.fix)" }
        if !error.fix.isEmpty { lines.append("  fix: \(error.fix)") }
        self.init(ExitStatus.of(error.code, isLogin: isLogin), lines.joined(separator: "\n"))
    }

    /// Prints the problem and returns the exit status.
    func report(to console: Console) -> Int32 {
        console.problem("error: \(text)")
        return status
    }
}

extension ExitStatus {
    /// The status of a command that ends with such an error.
    /// - Parameter isLogin: Whether it is the error of a tunnel with a login.
    static func of(_ code: TunnelError.Code, isLogin: Bool = false) -> Int32 {
        switch code {
        case .authenticationFailed where isLogin: loginRefused
        case .sessionTerminated: sessionEnded
        case .notRunning, .profileNotFound: notFound
        case .permissionDenied: notPermitted
        case .alreadyRunning: alreadyRunning
        case .serverUnreachable, .nameResolutionFailed, .networkUnavailable, .startTimedOut, .connectivityLost,
            .authenticationFailed, .keyMismatch:
            unreachable
        case .configurationInvalid, .settingsInvalid, .secretUnavailable, .profileDisabled: usage
        case .stopped: interrupted
        default: failure
        }
    }
}
