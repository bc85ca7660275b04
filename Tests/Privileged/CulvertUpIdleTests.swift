// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Idle", .timeLimit(.minutes(5)))
        struct IdleTests {
            /// The number of times that a thread of these processes has begun to wait.
            private func waits(of processes: [pid_t]) throws -> Int {
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

            @Test(
                "No timer wakes the threads of an idle tunnel without keepalives for 20 seconds, with any routes",
                arguments: ["0.0.0.0/0, ::/0", "10.77.0.0/24, fd77::/64"])
            func wakes(_ routes: String) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(allowedIPs: routes))
                try scene.ping(CulvertUpScene.gateway4)
                let runners = DaemonRemains.processes(of: "culvert", with: "--run-programs").filter { process in
                    DaemonRemains.commandLine(of: process).contains {
                        $0.contains(scene.files.path) || $0 == scene.name
                    }
                }
                let processes = scene.processes + runners
                #expect(scene.processes.count == 1 && runners.count == 2)
                // Threads that begin to wait for other reasons than a timer, such as a lock that another thread had. A
                // timer of ten seconds would exceed this: a check uses a thread for the timer and one for the task.
                let most = 3
                var (begun, count) = (ContinuousClock.now, try waits(of: processes))
                var busiest = 0
                // The timers of the start, and of the pings, end first. Then the tunnel is checked once a minute.
                try eventually("20 seconds without timers", within: .seconds(240), pollEvery: .seconds(1)) {
                    let now = try waits(of: processes)
                    if now - count > most {
                        busiest = max(busiest, now - count)
                        (begun, count) = (.now, now)
                    }
                    return ContinuousClock.now - begun >= .seconds(20)
                }
                print("idle: \(try waits(of: processes) - count) waits in 20 seconds; at most \(busiest) before")
                // If no task could wake, idle threads would prove nothing.
                #expect(try scene.processes.allSatisfy(hasTimerThread))
                // The next packet is checked as usual.
                try scene.ping(CulvertUpScene.gateway4)
                #expect(try scene.status()["state"] as? String == "connected")
                try scene.succeed("down", scene.name)
            }
        }
    }
#endif
