// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
package import TunnelSystem

/// The client of the process that starts programs for this one (``ProgramServer``).
///
/// A request without an answer in time fails. ``ProgramSupervisor`` replaces a server process that has ended or does
/// not answer. If the supervisor has ended too, each request fails, and applied settings stay applied.
package final class ProgramClient: Sendable {
    /// The purposes of requests: programs of the system, commands of the user, requests to a gateway, and repairs of
    /// name servers. Requests of different purposes do not wait for each other.
    package enum Purpose: Int, CaseIterable, Sendable {
        case system
        case commands
        case requests
        case nameServers
    }

    private let links: [ProgramLink]
    private let relay: ProgramRelay?
    /// The time in seconds that a reply may arrive after the request's own time limit, which the server enforces.
    private let patience: Int
    /// The scope of the server, which is fixed at its start.
    package let scope: ProgramScope

    /// The numbers of the sockets in the server process.
    package static var socketNumbers: [Int32] { Purpose.allCases.map { Int32(3 + $0.rawValue) } }

    /// Creates a client of a supervisor, and waits until the supervisor sends the scope. The first server starts at the same
    /// time, and the first request waits for it.
    /// - Throws: ``SystemError`` with the supervisor's error, or `ECHILD` if the supervisor ends without one.
    package init(_ channels: SupervisorChannels) throws(SystemError) {
        let relay = ProgramRelay(channels.control)
        (self.relay, links) = (relay, Purpose.allCases.map { ProgramLink(relay, $0) })
        patience = Self.standardPatience
        // The supervisor first reads the tunnel's file, so allow more time.
        let deadline = LaneClock.now() + Int64(Self.startSeconds) * LaneClock.nanosecondsPerSecond
        let text = channels.readScope(until: deadline)
        guard let scope = ProgramScope(text: text) else {
            let error = Int32(String(decoding: text, as: UTF8.self)) ?? ECHILD
            throw SystemError("start the process for programs", errno: error)
        }
        self.scope = scope
    }

    /// Creates a client of the servers that a relay provides.
    init(_ relay: ProgramRelay, scope: ProgramScope, patience: Int = standardPatience) {
        links = Purpose.allCases.map { ProgramLink(relay, $0) }
        (self.relay, self.scope, self.patience) = (relay, scope, patience)
    }

    private static let standardPatience = 5
    private static let startSeconds = 120

    /// Creates a client of a server on threads of this process, for tests.
    package init(servedHere scope: ProgramScope) throws(SystemError) {
        var (ours, theirs): ([ProgramLink], [SharedDescriptor]) = ([], [])
        for _ in Purpose.allCases {
            let (here, there) = try Self.pair()
            ours.append(ProgramLink(here))
            theirs.append(there)
        }
        links = ours
        relay = nil
        patience = Self.standardPatience
        self.scope = scope
        let sockets = theirs
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-run") { ProgramServer(scope).serve(sockets.map { dup($0.number) }) }
        } catch {
            throw SystemError("thread", errno: error.errno)
        }
    }

    /// Creates a client of a server that the caller runs at the other end of a socket.
    init(_ descriptor: SharedDescriptor, scope: ProgramScope, patience: Int = standardPatience) {
        let link = ProgramLink(descriptor)
        links = Purpose.allCases.map { _ in link }
        relay = nil
        self.patience = patience
        self.scope = scope
    }

    /// Returns two connected sockets with numbers above those that programs receive.
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

    /// Runs one of the system's programs and waits for its end.
    func run(
        system program: String, _ arguments: [String], input: [UInt8], seconds: Int, outputLimit: Int,
        by purpose: Purpose = .system
    ) throws(LinuxNetworkError) -> ChildProcess.Outcome {
        let call = SystemProgramCall(
            program: program, arguments: arguments, seconds: seconds, outputLimit: outputLimit)
        switch exchange(.system(call), input, by: purpose, within: seconds) {
        case .reply(.ended(let status), let output):
            return ChildProcess.Outcome(status: status, output: String(decoding: output, as: UTF8.self))
        case .reply(.timedOut, _), .late:
            throw LinuxNetworkError(.programTimedOut(path: program, seconds: seconds))
        case .reply(.notStarted(let errno), _):
            throw LinuxNetworkError(.programNotStarted(path: program), errno: errno)
        case .reply(.refused, _): throw LinuxNetworkError(.programNotStarted(path: program), errno: EPERM)
        default: throw LinuxNetworkError(.programNotStarted(path: program), errno: EPIPE)
        }
    }

    /// The result of a command.
    package enum Ending: Sendable {
        case ended(ChildProcess.Outcome)
        case interrupted(ChildProcess.Outcome)
        case timedOut
        /// The command cannot be started, or the server process has ended.
        case notStarted(errno: Int32)
    }

    /// Runs one of the commands in the scope and waits for its end.
    /// - Parameters:
    ///   - index: Its position in the scope.
    ///   - cancellation: A descriptor that ends the command when it becomes readable.
    package func run(
        command index: Int, input: [UInt8] = [], seconds: Int, outputLimit: Int = 65_536, by purpose: Purpose,
        cancellation: Int32? = nil
    ) -> Ending {
        let request = ProgramRequest.command(index, seconds: seconds, outputLimit: outputLimit)
        let answer = exchange(request, input, by: purpose, within: seconds, cancellation: cancellation)
        func outcome(_ status: Int32, _ output: [UInt8]) -> ChildProcess.Outcome {
            ChildProcess.Outcome(status: status, output: String(decoding: output, as: UTF8.self))
        }
        return switch answer {
        case .reply(.ended(let status), let output): .ended(outcome(status, output))
        case .reply(.interrupted, let output): .interrupted(outcome(143, output))
        case .cancelled: .interrupted(outcome(143, []))
        case .reply(.timedOut, _), .late: .timedOut
        case .reply(.notStarted(let errno), _): .notStarted(errno: errno)
        case .reply(.refused, _): .notStarted(errno: EPERM)
        default: .notStarted(errno: EPIPE)
        }
    }

    /// Reads the scope's file as it is now. Returns `nil` if the scope has none, or the server process has ended.
    package func file() -> (file: ProgramFile, bytes: [UInt8])? {
        guard case .reply(.file(let file), let bytes) = exchange(.file, [], by: .system, within: 30) else {
            return nil
        }
        return (file, bytes)
    }

    /// Sends a request. If the server process ends before it answers, a repeatable request is sent to the next process.
    private func exchange(
        _ request: ProgramRequest, _ input: [UInt8], by purpose: Purpose, within seconds: Int,
        cancellation: Int32? = nil
    ) -> ProgramLink.Answer {
        let start = LaneClock.now()
        let link = links[purpose.rawValue]
        let answer = link.exchange(request, input, within: seconds, patience: patience, cancellation: cancellation)
        guard case .ended = answer, relay?.hasEnded == false, request.isRepeatable else { return answer }
        let rest = seconds - Int((LaneClock.now() - start) / LaneClock.nanosecondsPerSecond)
        return link.exchange(request, input, within: max(1, rest), patience: patience, cancellation: cancellation)
    }
}
