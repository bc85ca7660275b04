// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    struct ImportTool {
        var console: Console
        var directory: String

        func run(_: String) -> Int32 {
            CommandFailure("gateways run on Linux", status: ExitStatus.usage).tell(console)
        }
    }
#endif
