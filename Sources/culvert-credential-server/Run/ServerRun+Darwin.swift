// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    enum ServerRun {
        static func run(directory _: String, journal _: String, console: Console) -> Int32 {
            CommandFailure("servers run on Linux", status: ExitStatus.usage).tell(console)
        }
    }
#endif
