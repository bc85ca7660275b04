// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    struct RunTool {
        var console: Console
        var directory: String
        var journal: String?

        func run() -> Int32 {
            CommandFailure("gateways run on Linux", status: ExitStatus.usage).tell(console)
        }
    }
#endif
