// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Why a demonstration ended early.
package struct DemoFailure: Error, CustomStringConvertible {
    /// What went wrong, as a clause.
    package var description: String
    /// Whether the user ended it.
    package var isInterruption = false

    package init(_ description: String) { self.description = description }

    /// The user pressed Ctrl-C, or the system asked the program to end.
    package static var interrupted: DemoFailure {
        var failure = DemoFailure("interrupted")
        failure.isInterruption = true
        return failure
    }
}
