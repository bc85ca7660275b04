// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    struct InitTool {
        var console: Console
        var directory: String

        func make(_: InitCommand) throws(CommandFailure) {
            throw CommandFailure("gateways run on Linux", status: ExitStatus.usage)
        }
    }
#endif
