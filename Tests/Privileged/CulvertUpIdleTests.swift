// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Idle", .timeLimit(.minutes(5)))
        struct IdleTests {
            /// The name of the thread in which libdispatch counts its threads once a second. The language's tasks run on
            /// libdispatch, which has no setting for this timer.
            private static let dispatchManager = "-qos.overcommit"

            /// The number of times that a thread of these processes has begun to wait, without libdispatch's own timer.
            private func waits(of processes: [pid_t]) throws -> Int {
                var count = 0
                for process in processes {
                    let tasks = "/proc/\(process)/task"
                    for task in try FileManager.default.contentsOfDirectory(atPath: tasks) {
                        // A thread may have ended since the folder was read.
                        let text = (try? String(contentsOfFile: "\(tasks)/\(task)/status", encoding: .utf8)) ?? ""
                        let name = text.split(separator: "\n").first?.split(separator: "\t").last
                        if name.map(String.init) == Self.dispatchManager { continue }
                        let line = text.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
                        count += line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0
                    }
                }
                return count
            }

            @Test("The timers of an idle tunnel without keepalives wake it at most once in half a minute")
            func wakes() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                try scene.ping()
                let runners = DaemonRemains.processes(of: "culvert", with: "--run-programs").filter { process in
                    DaemonRemains.commandLine(of: process).contains {
                        $0.contains(scene.files.path) || $0 == scene.name
                    }
                }
                let processes = scene.processes + runners
                #expect(scene.processes.count == 1 && runners.count == 2)
                // One check of the tunnel; its task may pass through a few threads.
                let most = 8
                var (begun, count) = (ContinuousClock.now, try waits(of: processes))
                var busiest = 0
                // The timers of the start, and of the pings, end first.
                try eventually("half a minute without timers", within: .seconds(240), pollEvery: .seconds(1)) {
                    let now = try waits(of: processes)
                    if now - count > most {
                        busiest = max(busiest, now - count)
                        (begun, count) = (.now, now)
                    }
                    return ContinuousClock.now - begun >= .seconds(30)
                }
                print("idle: \(try waits(of: processes) - count) waits in half a minute; at most \(busiest) before")
                // The next packet is checked as usual.
                try scene.ping()
                #expect(try scene.status()["state"] as? String == "connected")
                try scene.succeed("down", scene.name)
            }
        }
    }
#endif
