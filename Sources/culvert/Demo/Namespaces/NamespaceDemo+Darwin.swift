// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    import CommandLineSupport

    /// Network namespaces are Linux's.
    enum NamespaceDemo {
        static func run(seconds: Int, json: Bool, view: DemoView, console: Console) -> Int32 {
            console.problem("culvert: demo --tun needs network namespaces, which only Linux has; try: culvert demo")
            return ExitStatus.failure
        }
    }
#endif
