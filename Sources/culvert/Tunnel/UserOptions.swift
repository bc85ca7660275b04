// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport

/// The option for the users besides root who may control a tunnel. The commands `up` and `profile add` have it.
struct UserOptions: ParsableArguments {
    @Option(
        name: .customLong("allow-user"),
        help: ArgumentHelp(
            "A user who may use status, log and down on this tunnel; can be repeated, and adds to a profile's.",
            valueName: "user"))
    var permittedUsers: [String] = []
}

/// Users of the system, by name or number.
enum SystemUsers {
    /// The numbers of users.
    /// - Throws: if a user does not exist.
    static func numbers(_ names: [String]) throws(CommandProblem) -> Set<UInt32> {
        var numbers: Set<UInt32> = []
        for name in names {
            guard let number = number(name) else {
                throw CommandProblem(
                    ExitStatus.usage,
                    "there is no user '\(name)', who may control the tunnel\n  fix: correct --allow-user")
            }
            numbers.insert(number)
        }
        return numbers
    }

    private static func number(_ name: String) -> UInt32? {
        if let entry = unsafe getpwnam(name) { return unsafe entry.pointee.pw_uid }
        return UInt32(name)
    }
}
