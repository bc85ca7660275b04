// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    enum NamespaceGatewayDemo {
        static func run(seconds _: Int, style _: DemoView.Style, console: Console) -> Int32 {
            CommandFailure("gateways run on Linux", status: ExitStatus.usage).tell(console)
        }
    }
#endif
