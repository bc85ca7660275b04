// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Idle", .timeLimit(.minutes(5)))
        struct IdleTests {
            /// The number of times that a thread of these processes has begun to wait.
            private static func waits(of processes: [pid_t]) throws -> Int {
                var count = 0
                for process in processes {
                    let tasks = "/proc/\(process)/task"
                    for task in try FileManager.default.contentsOfDirectory(atPath: tasks) {
                        // A thread may have ended since the folder was read.
                        let text = (try? String(contentsOfFile: "\(tasks)/\(task)/status", encoding: .utf8)) ?? ""
                        let line = text.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
                        count += line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0
                    }
                }
                return count
            }

            /// Whether the process has the thread that wakes sleeping tasks.
            private func hasTimerThread(_ process: pid_t) throws -> Bool {
                let tasks = "/proc/\(process)/task"
                return try FileManager.default.contentsOfDirectory(atPath: tasks).contains { task in
                    (try? String(contentsOfFile: "\(tasks)/\(task)/comm", encoding: .utf8)) == "culvert-timer\n"
                }
            }

            /// A tunnel and the waits of its threads.
            private struct Tunnel {
                let scene: CulvertUpScene
                let processes: [pid_t]
                private(set) var begun = ContinuousClock.now
                private(set) var count: Int
                private(set) var busiest = 0
                /// Threads that begin to wait for other reasons than a timer, such as a lock that another thread had. A timer
                /// of ten seconds would exceed this: a check uses a thread for the timer and one for the task.
                private static let most = 3

                init(routes: String) throws {
                    scene = try CulvertUpScene()
                    try scene.succeed("up", try scene.writeFile(allowedIPs: routes))
                    try scene.ping(CulvertUpScene.gateway4)
                    let (files, name) = (scene.files.path, scene.name)
                    let runners = DaemonRemains.processes(of: "culvert", with: "--run-programs").filter { process in
                        DaemonRemains.commandLine(of: process).contains { $0.contains(files) || $0 == name }
                    }
                    try #require(scene.processes.count == 1 && runners.count == 2)
                    processes = scene.processes + runners
                    count = try IdleTests.waits(of: processes)
                }

                /// Whether no timer has woken a thread for 20 seconds.
                mutating func isIdle() throws -> Bool {
                    let now = try IdleTests.waits(of: processes)
                    if now - count > Self.most {
                        busiest = max(busiest, now - count)
                        (begun, count) = (.now, now)
                    }
                    return ContinuousClock.now - begun >= .seconds(20)
                }
            }

            @Test("No timer wakes the threads of an idle tunnel without keepalives for 20 seconds, with any routes")
            func wakes() throws {
                var tunnels = try ["0.0.0.0/0, ::/0", "10.77.0.0/24, fd77::/64"].map { try Tunnel(routes: $0) }
                var idle: Set<Int> = []
                // The timers of the start, and of the pings, end first. Then a tunnel is checked once a minute.
                try eventually("20 seconds without timers", within: .seconds(240), pollEvery: .seconds(1)) {
                    for index in tunnels.indices where !idle.contains(index) {
                        if try tunnels[index].isIdle() { idle.insert(index) }
                    }
                    return idle.count == tunnels.count
                }
                for tunnel in tunnels {
                    let (scene, waits) = (tunnel.scene, try Self.waits(of: tunnel.processes) - tunnel.count)
                    print("idle: \(waits) waits in 20 seconds or more; at most \(tunnel.busiest) before")
                    // If no task could wake, idle threads would prove nothing.
                    #expect(try scene.processes.allSatisfy(hasTimerThread))
                    // The next packet is checked as usual.
                    try scene.ping(CulvertUpScene.gateway4)
                    #expect(try scene.status()["state"] as? String == "connected")
                    try scene.succeed("down", scene.name)
                }
            }
        }
    }
#endif
