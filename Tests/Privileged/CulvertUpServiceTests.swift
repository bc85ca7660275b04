// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Watched, and as a service", .timeLimit(.minutes(5)))
        struct ServiceTests {
            @Test("On a pipe, status --watch prints a line for each check, until the tunnel ends")
            func watchPipe() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let watch = try SpawnedProcess(
                    scene.command(["status", scene.name, "--watch", "--json", "--interval", "0.1"]))
                func looks() throws -> [[String: Any]] {
                    try watch.outputSoFar.split(separator: "\n", omittingEmptySubsequences: true)
                        .filter { $0.hasSuffix("}") }
                        .map { try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]) }
                }
                try eventually("traffic is seen") {
                    try scene.ping()
                    return try looks().contains { $0["sentBitsPerSecond"] as? Double ?? 0 > 0 }
                }
                let look = try #require(try looks().last)
                #expect(look["state"] as? String == "connected")
                #expect(look["endpoint"] as? String == "192.0.2.1:51820")
                #expect(look["lastHandshakeSeconds"] is Double)
                let interrupted = try SpawnedProcess(scene.command(["status", "-w", "--interval", "0.1"]))
                try interrupted.waitForOutput(containing: "connected  192.0.2.1:51820")
                interrupted.signal(SIGINT)
                #expect(try interrupted.wait().status == 130)
                try scene.succeed("down", scene.name)
                let result = try watch.wait()
                #expect(result.status == 0)
                #expect(result.output.hasSuffix("\(scene.name): the tunnel is down\n"), "\(result)")
            }

            @Test(
                "Status --watch on a terminal: redrawn in place with graphs; the cursor comes back",
                arguments: [(true, false), (false, true)])
            func watchTerminal(_ hasColours: Bool, _ isInterrupted: Bool) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let terminal = try PseudoTerminal()
                let watch = try SpawnedProcess(
                    scene.command(
                        ["status", scene.name, "--watch", "--interval", "0.1"],
                        environment: ["TERM=xterm", "NO_COLOR=\(hasColours ? "" : "1")"]),
                    descriptors: [1: terminal.slave])
                try eventually("graphs are drawn") {
                    try scene.ping()
                    return terminal.output.contains("█")
                }
                #expect(terminal.output.hasPrefix("\u{1b}[?25l"))
                #expect(terminal.output.contains("\u{1b}[32mconnected\u{1b}[0m") == hasColours)
                for part in ["\u{1b}[8A", "connected", "192.0.2.1:51820", "handshake", "▼", "▲"] {
                    #expect(terminal.output.contains(part), "\(part)")
                }
                if isInterrupted {
                    watch.signal(SIGINT)
                } else {
                    try scene.succeed("down", scene.name)
                }
                #expect(try watch.wait().status == (isInterrupted ? 130 : 0))
                let ends = terminal.output.components(separatedBy: "\u{1b}[?25h")
                #expect(ends.count == 2, "the cursor comes back once")
                if !isInterrupted { #expect(ends.last?.contains("\(scene.name): the tunnel is down") == true) }
            }

            @Test(
                "An endless command ends when its reader closes the pipe",
                arguments: [["status", "--watch", "--interval", "0.1"], ["log", "--follow"]])
            func readerGone(_ arguments: [String]) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let words = scene.command([arguments[0], scene.name] + arguments.dropFirst())
                let line = words.joined(separator: " ") + " | head -n 1"
                let result = try PrivilegedTests.run(["bash", "-c", line], deadline: .seconds(60))
                #expect(result.output.contains(scene.name))
                try scene.succeed("down", scene.name)
            }

            @Test("Log --follow prints new lines until it is interrupted")
            func followLog() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                try scene.succeed("up", file)
                let log = try SpawnedProcess(scene.command(["log", scene.name, "--follow", "--level", "info"]))
                try log.waitForOutput(containing: "tunnel connected")
                try scene.succeed("down", scene.name)
                try log.waitForOutput(containing: "tunnel disconnected")
                log.signal(SIGINT)
                #expect(try log.wait().status == 130)
            }

            @Test("In the foreground it tells its service manager, and ends with SIGTERM")
            func foreground() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                let path = scene.files.path + "/notify"
                let receiver = try Receiver(path)
                let service = try SpawnedProcess(
                    scene.command(["up", file, "--foreground"], environment: ["NOTIFY_SOCKET=\(path)"]))
                var words = ""
                try eventually("it is ready") {
                    words += receiver.next() ?? ""
                    return words.contains("READY=1\nSTATUS=connected\n")
                }
                try scene.ping()
                #expect(try scene.status()["processID"] as? Int == Int(try #require(scene.processes.first)))
                service.signal(SIGTERM)
                let result = try service.wait(deadline: .seconds(60))
                #expect(result.status == 0, "\(result)")
                #expect(result.output.contains("tunnel connected") && result.output.contains("tunnel disconnected"))
                while let more = receiver.next() { words += more }
                #expect(words.contains("STOPPING=1\n"))
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
                // After these exit statuses systemd does not restart the unit.
                let failed = try scene.run("up", try scene.writeFile(port: 9), "--foreground", "--timeout", "1")
                #expect(failed.status == 6)
            }

            @Test("With --no-wait, the service manager is notified when the settings are applied, and of later changes")
            func foregroundWithoutServer() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                try scene.setServer(isSilent: true)
                let path = scene.files.path + "/notify"
                let receiver = try Receiver(path)
                let service = try SpawnedProcess(
                    scene.command(["up", file, "--foreground", "--no-wait"], environment: ["NOTIFY_SOCKET=\(path)"]))
                var words = ""
                try eventually("it is ready") {
                    words += receiver.next() ?? ""
                    return words.contains("READY=1\nSTATUS=not connected yet; it continues to try\n")
                }
                #expect(try scene.way(to: "203.0.113.7") == scene.name)
                try scene.setServer(isSilent: false)
                try eventually("it is connected", within: .seconds(60)) {
                    words += receiver.next() ?? ""
                    return words.contains("STATUS=connected\n")
                }
                service.signal(SIGTERM)
                #expect(try service.wait(deadline: .seconds(60)).status == 0)
                try scene.expectUnchanged()
            }

            @Test("The tunnel's process has no terminal, and keeps no descriptor open")
            func background() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let process = try #require(scene.processes.first)
                #expect(getsid(process) == process)
                #expect(try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/cwd") == "/")
                func descriptors() throws -> [String] {
                    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").compactMap {
                        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/fd/\($0)")
                    }
                }
                #expect(try descriptors().filter { $0 == "/dev/null" }.count == 3)
                // The tunnel's process closes the pipe to the command once the command has ended.
                try eventually("no pipe is open") { try !descriptors().contains { $0.hasPrefix("pipe:") } }
                try scene.succeed("down", "--all")
                try scene.expectUnchanged()
            }
        }
    }

    /// A socket like that of a service manager.
    private final class Receiver {
        private let descriptor: Int32

        init(_ path: String) throws {
            // SOCK_DGRAM | SOCK_NONBLOCK.
            descriptor = socket(AF_UNIX, 2 | 0o4000, 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let number = descriptor
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: Array(path.utf8)) }
            let bound = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(number, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard bound == 0 else { throw CommandFailure(description: "cannot bind \(path): errno \(errno)") }
        }

        deinit { close(descriptor) }

        /// The next message, if there is one.
        func next() -> String? {
            var bytes = [UInt8](repeating: 0, count: 512)
            let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
            return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
        }
    }
#endif
