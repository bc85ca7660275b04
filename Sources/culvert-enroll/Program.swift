// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport

@main
enum Program {
    static func main() async {
        // A reader that went away is noticed at the next write.
        _ = signal(SIGPIPE, SIG_IGN)
    }
}
