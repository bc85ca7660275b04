// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
package import TunnelSystem

/// Runs a ``ProgramServer`` in a separate process, and replaces a server that ends or does not answer. It does nothing
/// else, so that nothing can make it end.
///
/// It passes the same scope to each server, and passes the sockets of the server to the other process
/// (``ProgramRelay``). From that process it reads only single bytes.
package final class ProgramSupervisor {
    /// A server's process.
    private final class Server {
        let process: Int32
        /// A descriptor that becomes readable when the process has ended.
        let end: OwnedDescriptor
        /// The socket on which the server returns each byte.
        let heart: SharedDescriptor
        let start = LaneClock.now()
        /// The time limit for the server to return a byte; `nil` if it has returned all bytes.
        var limit: Int64?
        /// The number of missed limits.
        var misses = 0
        /// Whether the server has ever returned a byte.
        var hasBeaten = false

        init(_ process: Int32, end: consuming OwnedDescriptor, heart: SharedDescriptor) {
            self.process = process
            self.end = end
            self.heart = heart
        }
    }

    /// The number of the supervisor's socket in its process.
    package static let controlNumber: Int32 = 3
    /// The number of the pipe to which the supervisor writes the scope, or the number of an error.
    package static let reportNumber: Int32 = 4
    /// The descriptor numbers of the scope and of the heartbeat socket in a server process.
    private static let scopeNumber: Int32 = 0
    private static var heartNumber: Int32 { ProgramClient.socketNumbers.reduce(0, max) + 1 }

    /// The time limit for returning a byte, in nanoseconds, and the number of times that a server may miss it. It may
    /// miss one because after a pause of the whole machine the supervisor may run first.
    private static let patience = LaneClock.nanosecondsPerSecond
    private static let mostMisses = 2
    /// The time limit for the first byte of a new server, in nanoseconds.
    private static let startPatience = 30 * LaneClock.nanosecondsPerSecond
    /// The minimum lifetime of a server, in nanoseconds. If a server ends earlier, the next one starts only after a
    /// pause.
    private static let leastLife = 5 * LaneClock.nanosecondsPerSecond
    private static let leastPause = LaneClock.nanosecondsPerSecond / 10
    private static let mostPause = 5 * LaneClock.nanosecondsPerSecond
    /// The time limit for a server to end its programs after the other process has ended, in nanoseconds.
    private static let endPatience = 3 * LaneClock.nanosecondsPerSecond

    /// The scope as text; empty until ``run(_:)``.
    private var scope: [UInt8] = []
    private let program: String
    private let arguments: [String]
    private let environment: [String]
    private let control = controlNumber
    private var server: Server?
    /// The time when the next server may start.
    private var due = Int64.min
    private var pause: Int64 = 0

    /// - Parameters:
    ///   - program: The file of a program that calls ``serve()``.
    ///   - arguments: The arguments of the program, with its name first.
    package init(program: String, arguments: [String], environment: [String]) {
        (self.program, self.arguments, self.environment) = (program, arguments, environment)
    }

    /// Reports to the other process that no server can be started.
    package static func report(_ error: SystemError) {
        _ = SystemCall.writeAll(reportNumber, Array("\(error.errno)".utf8))
    }

    /// Starts a server, passes the scope to it and to the other process, and keeps a server running until the other process has
    /// ended.
    /// - Throws: The reason if the scope has no text or the first server cannot be started.
    package func run(_ scope: ProgramScope) throws(SystemError) {
        self.scope = try scope.text()
        server = try makeServer()
        // A process that has ended does not read it, and the loop below notices that.
        _ = SystemCall.writeAll(Self.reportNumber, self.scope)
        SystemCall.close(Self.reportNumber)
        askForBeat()
        while true {
            if server == nil, LaneClock.now() >= due { replace() }
            let deadline = server.map { $0.limit ?? .max } ?? due
            let descriptors = [control, server?.end.number ?? -1, server?.heart.number ?? -1]
            let ready = ChildProcess.ready(descriptors, until: deadline) ?? [false, false, false]
            if ready[2] { takeBeat() }
            if ready[1] { reap() }
            if ready[0], !handleRequests() { break }
            if let limit = server?.limit, LaneClock.now() >= limit { countMiss() }
        }
        SystemCall.close(control)
        // The server ends by itself, because its sockets are closed.
        guard let server else { return }
        if ChildProcess.ready([server.end.number], until: LaneClock.now() + Self.endPatience) == nil { kill() }
        reap()
    }

    // MARK: - Requests

    /// Handles the requests of the other process.
    /// - Returns: `false` if that process has ended.
    private func handleRequests() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(control, into: $0) }
        guard count > 0 else { return count < 0 && errno == EAGAIN }
        switch bytes[..<count].compactMap({ ProgramRelay.Request(rawValue: $0) }).max(by: { $0.rawValue < $1.rawValue })
        {
        case .check: askForBeat()
        case .replace: kill()
        case nil: break
        }
        return true
    }

    private func askForBeat() {
        guard let server, server.limit == nil else { return }
        let now = LaneClock.now()
        server.limit = server.hasBeaten ? now + Self.patience : server.start + Self.startPatience
        unsafe withUnsafeBytes(of: UInt8(1)) { bytes in unsafe _ = SystemCall.write(server.heart.number, bytes) }
    }

    private func takeBeat() {
        guard let server else { return }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(server.heart.number, into: $0) }
        if count > 0 {
            (server.limit, server.misses, server.hasBeaten) = (nil, 0, true)
        } else if count == 0 {
            // Without this socket the supervisor could not notice that the server hangs.
            kill()
        }
    }

    private func countMiss() {
        guard let server else { return }
        server.misses += 1
        if server.misses < Self.mostMisses { server.limit = LaneClock.now() + Self.patience } else { kill() }
    }

    // MARK: - The server's process

    private func replace() {
        do throws(SystemError) {
            server = try makeServer()
            askForBeat()
        } catch {
            delayNext()
        }
    }

    private func makeServer() throws(SystemError) -> Server {
        let setup = SpawnSetup(.ownSession)
        let file = try SystemProgram.memoryFile(scope)
        setup.pass(file.number, as: Self.scopeNumber)
        for number in [1, 2] as [Int32] { setup.openNull(number, forWriting: true) }
        var (ours, theirs): ([SharedDescriptor], [SharedDescriptor]) = ([], [])
        for number in ProgramClient.socketNumbers {
            let (here, there) = try ProgramClient.pair()
            ours.append(here)
            theirs.append(there)
            setup.pass(there.number, as: number)
        }
        let (heart, theirHeart) = try ProgramClient.pair()
        guard SystemCall.setNonBlocking(heart.number) else { throw SystemError("fcntl", errno: errno) }
        setup.pass(theirHeart.number, as: Self.heartNumber)
        // Close the copies here. They would keep a server running after the other process has ended.
        defer { for descriptor in ours + theirs + [theirHeart] { descriptor.close() } }
        let process = try setup.start(program, arguments: arguments, environment: environment)
        withExtendedLifetime(file) {}
        do throws(SystemError) {
            let end = try ChildProcess.descriptor(of: process)
            let failure = unsafe ctunnel_send_descriptors(control, ours.map(\.number), Int32(ours.count))
            guard failure == 0 else { throw SystemError("sendmsg", errno: failure) }
            return Server(process, end: end, heart: heart)
        } catch {
            _ = CTunnelSystem.kill(process, SIGKILL)
            _ = ChildProcess.reap(process)
            throw error
        }
    }

    /// Kills the server and the programs that it runs.
    private func kill() {
        guard let server else { return }
        for child in Self.children(of: server.process) { _ = CTunnelSystem.kill(-child, SIGKILL) }
        _ = CTunnelSystem.kill(server.process, SIGKILL)
        server.limit = nil
    }

    /// Returns the child processes of a process, each of which leads a process group. Empty if the kernel does not list
    /// them.
    private static func children(of process: Int32) -> [Int32] {
        let folder = "/proc/\(process)/task"
        return (FolderContents.names(folder) ?? []).flatMap { task in
            let number = SystemCall.open("\(folder)/\(task)/children", O_RDONLY)
            guard number >= 0 else { return [Int32]() }
            let descriptor = OwnedDescriptor(number)
            let text = String(decoding: SystemCall.readAll(descriptor.number, limit: 65_536) ?? [], as: UTF8.self)
            return text.split(separator: " ").compactMap { Int32($0) }
        }
    }

    private func reap() {
        guard let server else { return }
        _ = ChildProcess.reap(server.process)
        if LaneClock.now() - server.start > Self.leastLife { pause = 0 }
        self.server = nil
        delayNext()
    }

    /// Sets the time of the next start. The first replacement starts immediately. If servers end early, the pauses
    /// increase.
    private func delayNext() {
        due = LaneClock.now() + pause
        pause = min(Self.mostPause, max(Self.leastPause, 2 * pause))
    }

    // MARK: - In the server's process

    /// Serves the sockets that a supervisor has given this process, until their other ends are closed.
    /// - Returns: `false` if this process has none.
    package static func serve() -> Bool {
        guard let text = SystemCall.readAll(scopeNumber, limit: ProgramScope.mostBytes),
            let scope = ProgramScope(text: text)
        else { return false }
        let heart = heartNumber
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-beat") {
                var bytes = [UInt8](repeating: 0, count: 64)
                while true {
                    let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(heart, into: $0) }
                    // The supervisor has ended. The server continues to run programs.
                    guard count > 0, SystemCall.writeAll(heart, Array(bytes[..<count])) else { return }
                }
            }
        } catch {
            return false
        }
        ProgramServer(scope).serve(ProgramClient.socketNumbers)
        return true
    }
}
