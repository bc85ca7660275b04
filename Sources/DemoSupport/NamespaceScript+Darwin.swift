// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CommandLineSupport

    enum NamespaceScript {
        static func make(for command: String) throws(CommandFailure) -> DemoFlow {
            throw CommandFailure(
                "\(command) --tun needs network namespaces, which only Linux has; try: culvert \(command)")
        }
    }
#endif
