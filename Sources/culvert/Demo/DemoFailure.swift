// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Why a demonstration ended early.
struct DemoFailure: Error, CustomStringConvertible {
    /// What went wrong, as a clause.
    var description: String
    /// Whether the user ended it.
    var isInterruption = false

    init(_ description: String) { self.description = description }

    /// The user pressed Ctrl-C, or the system asked the program to end.
    static var interrupted: DemoFailure {
        var failure = DemoFailure("interrupted")
        failure.isInterruption = true
        return failure
    }
}
