// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport

extension CommandFailure {
    /// Prints the error, and returns the exit status.
    func report(to console: Console) -> Int32 { report(to: console, as: "culvert-gateway") }
}
