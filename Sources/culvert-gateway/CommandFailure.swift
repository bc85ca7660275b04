// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport

extension CommandFailure {
    /// Says it, and returns the exit status.
    func tell(_ console: Console) -> Int32 { tell(console, as: "culvert-gateway") }
}
