// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite("Crashes", .timeLimit(.minutes(5)))
        struct CrashTests {
            /// An upper bound for the number of operations in each of these tests.
            private static let limit = 100

            @Test(
                "After a crash at any operation, before or after it, cleaning up restores the network",
                arguments: LeakPolicy.allCases)
            func everyOperation(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let settings = try LinuxHostWorld.settings(policy, local: policy != .everything)
                var isWhole = false
                for number in 1..<Self.limit where !isWhole {
                    for doesLast in [false, true] {
                        var core: LinuxPlatformCore? = try world.core(
                            dying: DyingNetwork.Life(operations: number, doesLast: doesLast))
                        try world.host.perform {
                            do {
                                try core?.prepare(policy)
                                _ = try core?.apply(settings)
                                isWhole = true
                            } catch {
                                #expect("\(error)".contains("live on"))
                            }
                        }
                        // Release the descriptors, as the end of a process does.
                        core = nil
                        let undone = try world.cleanUp()
                        // Consecutive routes are recorded together; every other change is recorded before its own
                        // operation.
                        #expect(undone.count { !$0.contains(" route to ") } <= number)
                        #expect(!undone.isEmpty)
                        try world.expectUnchanged(since: before, "operation \(number), done: \(doesLast)")
                        #expect(try world.cleanUp().isEmpty)
                    }
                }
                #expect(isWhole, "every operation was reached")
            }

            @Test("A host that dies at any operation of undoing, and again of cleaning up, leaves nothing in the end")
            func whileUndoing() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let settings = try LinuxHostWorld.settings(.enforcedRoutes, local: true)
                var count = 0
                for number in 1..<Self.limit {
                    let core = try world.core()
                    try world.host.perform {
                        try core.prepare(.enforcedRoutes)
                        let device = try core.apply(settings)
                        device.close()
                        // A second process finds that the first one has died, and dies too.
                        let network = DyingNetwork(
                            try LinuxNetwork(), DyingNetwork.Life(operations: number, doesLast: number % 2 == 0))
                        let undone = try? ChangeLedger.cleanUp(
                            name: LinuxHostWorld.tunnel, directory: JournalDirectory(path: world.folder),
                            system: network)
                        if undone != nil { count = number }
                    }
                    _ = try world.cleanUp()
                    try world.expectUnchanged(since: before, "operation \(number)")
                    if count > 0 { break }
                }
                #expect(count > 10)
            }

            @Test(
                "The next start undoes a crash's changes, and blocks everything meanwhile if the policy demands it")
            func nextStart() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let settings = try LinuxHostWorld.settings(.everything, local: false)
                let first = try world.core()
                try world.host.perform {
                    try first.prepare(.everything)
                    try first.apply(settings).close()
                }
                #expect(try world.host.run("nft", "list", "tables").output.contains("culvert_"))
                let second = try world.core()
                try world.host.perform { try second.prepare(.everything) }
                #expect(try world.host.run("nft", "list", "tables").output.contains("culvert_"))
                #expect(try !world.host.run("ip", "rule").output.contains("51821"))
                try world.host.perform {
                    _ = try second.apply(settings)
                    second.tearDown(leavingBlocked: false)
                }
                try world.expectUnchanged(since: before)
            }

            // MARK: - Real ends

            private static let variable = "CULVERT_TEST_DIES_AT"

            @Test(
                "A process is killed by a signal at any operation",
                arguments: LeakPolicy.allCases.dropFirst())
            func killed(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                var isWhole = false
                for number in 1..<Self.limit where !isWhole {
                    let result = try runAllowingFailure([
                        "env", "CI=true",
                        "\(Self.variable)=\(number) \(policy.rawValue) \(world.host.name) \(world.folder)",
                        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
                        "--testing-library", "swift-testing", "--filter", "LinuxHostTests.CrashTests/child",
                    ])
                    isWhole = result.status == 0
                    #expect(isWhole || result.status == 128 + SIGKILL, "\(result)")
                    #expect(try !world.cleanUp().isEmpty, "\(result)")
                    try world.expectUnchanged(since: before, "operation \(number)")
                }
                #expect(isWhole)
            }

            @Test(
                "(the process that is killed)",
                .enabled(if: ProcessInfo.processInfo.environment[variable] != nil, "is started by another test"))
            func child() throws {
                let words = try #require(ProcessInfo.processInfo.environment[Self.variable]).split(separator: " ")
                let number = try #require(Int(words[0]))
                let policy = try #require(LeakPolicy(rawValue: String(words[1])))
                let options = LinuxHostOptions(nameServers: .wanted, journalFolder: String(words[3]))
                let life = DyingNetwork.Life(operations: number, doesLast: number % 2 == 0) {
                    kill(getpid(), SIGKILL)
                }
                let namespace = try NetworkNamespace(path: "/run/netns/\(words[2])")
                try namespace.run {
                    Result {
                        let core = LinuxPlatformCore(
                            name: LinuxHostWorld.tunnel, options: options,
                            network: try LinuxNetwork(), wrap: { DyingNetwork($0, life) })
                        try core.prepare(policy)
                        _ = try core.apply(LinuxHostWorld.settings(policy, local: true))
                    }
                }
                .get()
            }
        }
    }
#endif
