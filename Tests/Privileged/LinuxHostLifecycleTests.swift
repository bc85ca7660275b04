// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import HostConformance
    import Logging
    import PacketTunnelTesting
    import Testing

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    /// ``LinuxHost`` in the table of life-cycle cases. A script controls its steps; the steps that the script permits
    /// are really executed.
    struct LinuxHostUnderTest: HostUnderTest {
        /// The network of a test's hosts.
        @TaskLocal static var world: LinuxHostWorld?

        private let world: LinuxHostWorld
        private let linux: LinuxHost<ScriptedProvider>
        private let steps: PlatformScript

        init(clock: VirtualClock, script: Script, deadlines: TunnelDeadlines) throws {
            guard let world = Self.world else { throw CommandFailure(description: "there is no world") }
            let steps = PlatformScript(clock: clock)
            linux = try world.host.perform {
                try LinuxHost(
                    LinuxPlatform(name: LinuxHostWorld.tunnel, options: world.options),
                    secrets: MemorySecretStore(), deadlines: deadlines, clock: clock,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                    wrap: { ScriptedPlatform($0, script: steps) }, makeProvider: { ScriptedProvider(script) })
            }
            self.world = world
            self.steps = steps
        }

        var host: any TunnelHost { linux }

        func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour) { steps.set(step, behaviour) }

        func releaseAll() { steps.releaseAll() }

        var hangingCount: Int { steps.hangingCount }

        /// Whether the kernel has settings of the tunnel.
        var hasSettings: Bool {
            let interface = try? world.host.perform { unsafe if_nametoindex(LinuxHostWorld.tunnel) }
            let rules = (try? world.host.run("ip", "rule"))?.output
            return interface != 0 || rules?.contains("51821") != false
        }

        var hasLeakGuard: Bool {
            (try? world.host.run("nft", "list", "tables"))?.output.contains("culvert_") != false
        }
    }

    /// The numbers of this process's resources of which each Linux host has one. Hosts of other tests, which may run at
    /// the same time, do not count.
    private struct HostResources: Equatable {
        /// Threads of hosts in the world's namespace.
        var threads: Int
        /// Descriptors that watch the folder of the world's journals.
        var inotifyInstances: Int

        /// Counts the resources.
        /// - Parameter folder: The inode of the folder of the world's journals.
        init(in namespace: Int, watching folder: Int) throws {
            let (files, process) = (FileManager.default, "/proc/self")
            // A thread or descriptor may end before its file is read.
            threads = try files.contentsOfDirectory(atPath: "\(process)/task")
                .count { thread in
                    let path = "\(process)/task/\(thread)"
                    return (try? String(contentsOfFile: "\(path)/comm", encoding: .utf8)) == "culvert-net\n"
                        && (try? files.destinationOfSymbolicLink(atPath: "\(path)/ns/net")) == "net:[\(namespace)]"
                }
            let watch = " ino:\(String(folder, radix: 16)) "
            inotifyInstances = try files.contentsOfDirectory(atPath: "\(process)/fdinfo")
                .count { number in
                    let text = try? String(contentsOfFile: "\(process)/fdinfo/\(number)", encoding: .utf8)
                    return text?.split(separator: "\n").contains { $0.hasPrefix("inotify ") && $0.contains(watch) }
                        == true
                }
        }

        /// The resources of this number of hosts.
        init(ofHosts count: Int) { (threads, inotifyInstances) = (count, count) }

        /// Returns the inode of a file.
        static func inode(of path: String) throws -> Int {
            let text = try PrivilegedTests.run(["stat", "-Lc", "%i", path]).output
            return try #require(Int(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        }
    }

    extension LinuxHostTests {
        @Suite("The table of life-cycle cases on the Linux host", .timeLimit(.minutes(10)))
        struct LifecycleTests {
            @Test(
                "Each case holds with the real network, which is as it was afterwards",
                arguments: LifecycleCase.Situation.allCases)
            func cases(_ situation: LifecycleCase.Situation) async throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let cases = LifecycleCase.all.filter { $0.situation == situation }
                try #require(cases.count == LifecycleCase.Event.allCases.count)
                for test in cases {
                    try await LinuxHostUnderTest.$world.withValue(world) {
                        try await LifecycleScene<LinuxHostUnderTest>().play(test)
                    }
                    try world.expectUnchanged(since: before, test.testDescription)
                }
            }

            @Test("Small batches to read into are refused on the Linux host")
            func smallBatches() async throws {
                let world = try LinuxHostWorld()
                try await LinuxHostUnderTest.$world.withValue(world) {
                    try await LifecycleScene<LinuxHostUnderTest>().readIntoSmallBatches()
                }
            }

            @Test("A running provider can save a secret on the Linux host")
            func savedSecrets() async throws {
                let world = try LinuxHostWorld()
                try await LinuxHostUnderTest.$world.withValue(world) {
                    try await LifecycleScene<LinuxHostUnderTest>().saveSecret()
                }
            }

            @Test("A provider that starts while the device sleeps receives the sleep on the Linux host")
            func startsAsleep() async throws {
                let world = try LinuxHostWorld()
                try await LinuxHostUnderTest.$world.withValue(world) {
                    try await LifecycleScene<LinuxHostUnderTest>().startAsleep()
                }
            }

            /// Each host has an inotify instance, and a user may have only 128.
            @Test("A stopped host releases its thread and its inotify instance, even if its provider's context is kept")
            func releases() async throws {
                let world = try LinuxHostWorld()
                let script = Script()
                let namespace = try HostResources.inode(of: "/run/netns/\(world.host.name)")
                var folder = 0
                // Waits until the process has the resources of this number of hosts. A thread sets its name after its start,
                // and ends after its host.
                func becomes(_ hosts: Int) async throws -> Bool {
                    let end = ContinuousClock.now + Privileged.patience
                    while try HostResources(in: namespace, watching: folder) != HostResources(ofHosts: hosts) {
                        guard ContinuousClock.now < end else { return false }
                        await Task.yield()
                    }
                    return true
                }
                do {
                    let subject = try LinuxHostUnderTest.$world.withValue(world) {
                        try LinuxHostUnderTest(clock: VirtualClock(), script: script, deadlines: TunnelDeadlines())
                    }
                    try await subject.host.start(TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8)))
                    folder = try HostResources.inode(of: world.folder)
                    #expect(try await becomes(1))
                    await subject.host.stop(.userInitiated)
                }
                #expect(script.context != nil)
                #expect(try await becomes(0))
            }

            @Test(
                "A failed step is the start's error, and leaves nothing",
                arguments: [PlatformStep.prepare, .apply], LeakPolicy.allCases)
            func failures(_ step: PlatformStep, _ policy: LeakPolicy) async throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let script = Script()
                let subject = try LinuxHostUnderTest.$world.withValue(world) {
                    try LinuxHostUnderTest(clock: VirtualClock(), script: script, deadlines: TunnelDeadlines())
                }
                subject.set(step, .fail(TunnelError(.settingsFailed, "no route")))
                let request = TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8), leakPolicy: policy)
                await #expect(throws: TunnelError(.settingsFailed, "no route")) {
                    try await subject.host.start(request)
                }
                await subject.host.stop(.userInitiated)
                try world.expectUnchanged(since: before)
                subject.set(step, .succeed)
                try await subject.host.start(request)
                #expect(subject.hasSettings)
                #expect(script.context?.socketMark == 51_821)
                // Later settings that fail leave the earlier settings in effect, and the tunnel up.
                subject.set(.apply, .fail(TunnelError(.settingsFailed, "no route")))
                let context = try #require(script.context)
                await #expect(throws: TunnelError(.settingsFailed, "no route")) { try await context.apply(.sample) }
                #expect(subject.host.status.status == .connected)
                await subject.host.stop(.userInitiated)
                try world.expectUnchanged(since: before)
            }
        }
    }
#endif
