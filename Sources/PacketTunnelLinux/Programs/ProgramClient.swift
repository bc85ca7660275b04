// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
package import TunnelSystem

/// The process that starts programs for this one (``ProgramServer``).
///
/// When it is gone, programs cannot be started any more: what needs them fails, and what is in force stays so.
package final class ProgramClient: Sendable {
    /// What waits for nothing else: programs of the system, commands of the user, and requests to a gateway.
    package enum Purpose: Int, CaseIterable, Sendable {
        case system
        case commands
        case requests
    }

    /// A socket to it, on which one request is under way at a time.
    private final class Link: Sendable {
        let descriptor: SharedDescriptor
        let isBroken = Mutex(false)

        init(_ descriptor: SharedDescriptor) { self.descriptor = descriptor }
    }

    private let links: [Link]
    /// What it was told at its start.
    package let scope: ProgramScope
    /// Its process.
    package let process: Int32

    /// The numbers of the sockets in the process.
    package static var socketNumbers: [Int32] { Purpose.allCases.map { Int32(3 + $0.rawValue) } }

    /// Starts the process, which has to serve ``socketNumbers``, and waits until it says what it was told.
    /// - Throws: when it cannot be started, or ends before it says so.
    package init(program: String, arguments: [String], environment: [String]) throws(SystemError) {
        let setup = SpawnSetup(.ownSession)
        for number in [0, 1, 2] as [Int32] { setup.openNull(number, forWriting: number > 0) }
        var ours: [Link] = []
        var theirs: [SharedDescriptor] = []
        for number in Self.socketNumbers {
            let (here, there) = try Self.pair()
            ours.append(Link(here))
            theirs.append(there)
            setup.give(there.number, as: number)
        }
        process = try setup.start(program, arguments: arguments, environment: environment)
        for descriptor in theirs { descriptor.close() }
        links = ours
        guard ProgramFrame.send(ProgramRequest.scope, [], to: links[0].descriptor.number),
            let (reply, _) = ProgramFrame.receive(ProgramReply.self, from: links[0].descriptor.number),
            case .scope(let scope) = reply
        else { throw SystemError("start the process for programs", errno: ECHILD) }
        self.scope = scope
    }

    /// A client of a server on threads of this process, for tests.
    package init(servedHere scope: ProgramScope) throws(SystemError) {
        var (ours, theirs): ([Link], [SharedDescriptor]) = ([], [])
        for _ in Purpose.allCases {
            let (here, there) = try Self.pair()
            ours.append(Link(here))
            theirs.append(there)
        }
        links = ours
        self.scope = scope
        process = 0
        let sockets = theirs
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-run") { ProgramServer(scope).serve(sockets.map { dup($0.number) }) }
        } catch {
            throw SystemError("thread", errno: error.errno)
        }
    }

    /// A client of a server that the caller runs at the other end of one socket.
    init(_ descriptor: SharedDescriptor, scope: ProgramScope) {
        let link = Link(descriptor)
        links = Purpose.allCases.map { _ in link }
        self.scope = scope
        process = 0
    }

    /// Two sockets that are connected, above the numbers that programs are given theirs under.
    static func pair() throws(SystemError) -> (SharedDescriptor, SharedDescriptor) {
        var ends: (Int32, Int32) = (-1, -1)
        let made = unsafe withUnsafeMutableBytes(of: &ends) { raw in
            unsafe ctunnel_unix_pair(raw.bindMemory(to: Int32.self).baseAddress)
        }
        guard made == 0 else { throw SystemError("socketpair", errno: errno) }
        let (low, high) = ends
        defer { for end in [low, high] { SystemCall.close(end) } }
        return (try Self.raised(low), try Self.raised(high))
    }

    private static func raised(_ descriptor: Int32) throws(SystemError) -> SharedDescriptor {
        SharedDescriptor(OwnedDescriptor(try SystemCall.check("dup") { fcntl(descriptor, F_DUPFD_CLOEXEC, 20) }))
    }

    // MARK: - Requests

    /// Has one of the system's programs be run to its end.
    func run(
        system program: String, _ arguments: [String], input: [UInt8], seconds: Int, outputLimit: Int
    ) throws(LinuxNetworkError) -> ChildProcess.Outcome {
        let call = SystemProgramCall(
            program: program, arguments: arguments, seconds: seconds, outputLimit: outputLimit)
        // The process keeps the time; this is for one that does not.
        let reply = exchange(.system(call), input, by: .system, within: seconds + 30)
        switch reply {
        case (.ended(let status), let output)?:
            return ChildProcess.Outcome(status: status, output: String(decoding: output, as: UTF8.self))
        case (.timedOut, _)?: throw LinuxNetworkError(.programTimedOut(path: program, seconds: seconds))
        case (.notStarted(let errno), _)?: throw LinuxNetworkError(.programNotStarted(path: program), errno: errno)
        case (.refused, _)?: throw LinuxNetworkError(.programNotStarted(path: program), errno: EPERM)
        default: throw LinuxNetworkError(.programNotStarted(path: program), errno: EPIPE)
        }
    }

    /// How a command went.
    package enum Ending: Sendable {
        case ended(ChildProcess.Outcome)
        case interrupted(ChildProcess.Outcome)
        case timedOut
        /// It cannot be started, or its process is gone.
        case notStarted(errno: Int32)
    }

    /// Has one of the commands that the process was told be run to its end.
    /// - Parameters:
    ///   - index: its place among them.
    ///   - cancellation: ends it when it polls readable.
    package func run(
        command index: Int, input: [UInt8] = [], seconds: Int, outputLimit: Int = 65_536, by purpose: Purpose,
        cancellation: Int32? = nil
    ) -> Ending {
        let request = ProgramRequest.command(index, seconds: seconds, outputLimit: outputLimit)
        let reply = exchange(request, input, by: purpose, within: seconds + 30, cancellation: cancellation)
        func outcome(_ status: Int32, _ output: [UInt8]) -> ChildProcess.Outcome {
            ChildProcess.Outcome(status: status, output: String(decoding: output, as: UTF8.self))
        }
        return switch reply {
        case (.ended(let status), let output)?: .ended(outcome(status, output))
        case (.interrupted, let output)?: .interrupted(outcome(143, output))
        case (.timedOut, _)?: .timedOut
        case (.notStarted(let errno), _)?: .notStarted(errno: errno)
        case (.refused, _)?: .notStarted(errno: EPERM)
        default: .notStarted(errno: EPIPE)
        }
    }

    /// The file that the process was told, as it is now; nil where there is none, or the process is gone.
    package func file() -> (file: ProgramFile, bytes: [UInt8])? {
        guard case (.file(let file), let bytes)? = exchange(.file, [], by: .system, within: 30) else { return nil }
        return (file, bytes)
    }

    private func exchange(
        _ request: ProgramRequest, _ input: [UInt8], by purpose: Purpose, within seconds: Int,
        cancellation: Int32? = nil
    ) -> (ProgramReply, [UInt8])? {
        let link = links[purpose.rawValue]
        let descriptor = link.descriptor.number
        let deadline = LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond
        return link.isBroken.withLock { isBroken in
            guard !isBroken else { return nil }
            // Whatever comes late would be taken for the answer to something else.
            isBroken = true
            guard ProgramFrame.send(request, input, to: descriptor) else { return nil }
            var cancellation = cancellation
            while true {
                guard let ready = ChildProcess.ready([descriptor, cancellation ?? -1], until: deadline) else {
                    return nil
                }
                if ready[0] { break }
                cancellation = nil
                guard ProgramFrame.send(ProgramRequest.cancel, [], to: descriptor) else { return nil }
            }
            guard let reply = ProgramFrame.receive(ProgramReply.self, from: descriptor) else { return nil }
            isBroken = false
            return reply
        }
    }
}
