// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NIOCore
import NIOPosix
import PacketTunnelLinux
import Synchronization

/// The failures of one listener to accept connections.
///
/// An episode begins with the first failure, and ends after a time without a failure. Each text is logged
/// once in an episode.
final class ListenerTrouble: Sendable {
    private struct State {
        var problem: NetworkProblem?
        var logged: Set<String> = []
        var delay = ListenerTrouble.shortestDelay
        /// The number of failures since the start.
        var count = 0
    }

    /// The first and the longest time to wait before the next attempt. It doubles from one attempt to the next.
    static let (shortestDelay, longestDelay) = (Duration.milliseconds(100), Duration.seconds(1))

    private let name: String
    private let quiet: Duration
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - name: The name of the listener in the log.
    ///   - quiet: The time without a failure after which an episode ends. It must be longer than the longest delay.
    init(name: String, quiet: Duration, logger: Logger) {
        self.name = name
        self.quiet = quiet
        self.logger = logger
    }

    /// The latest failure, with the time of the first one; `nil` if there is no episode.
    var problem: NetworkProblem? { state.withLock(\.problem) }

    /// Records a failure.
    func report(_ what: String, _ level: Logger.Level) {
        let (isNew, count) = state.withLock { state in
            state.problem = NetworkProblem(
                what: what, since: state.problem?.since ?? Date().timeIntervalSince1970)
            state.count += 1
            return (state.logged.insert(what).inserted, state.count)
        }
        if isNew { logger.log(level: level, "\(what); will retry") }
        MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: TimeAmount(quiet)) { [weak self] in
            self?.endEpisode(ifLast: count)
        }
    }

    /// The time to wait before the next attempt.
    func nextDelay() -> Duration {
        state.withLock { state in
            defer { state.delay = min(state.delay * 2, Self.longestDelay) }
            return state.delay
        }
    }

    /// Forgets the failures of a listener that is closed.
    func clear() { state.withLock { $0 = State(count: $0.count + 1) } }

    private func endEpisode(ifLast count: Int) {
        let isOver = state.withLock { state in
            guard state.count == count else { return false }
            state = State(count: count)
            return true
        }
        if isOver { logger.info("the \(name) accepts connections again") }
    }
}

/// Pauses a listening socket while the system has no descriptors or memory for a connection.
///
/// NIO's `AcceptBackoffHandler` delays only the next read. The socket stays registered for the read that has failed, so
/// the loop calls `accept` again immediately.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private let name: String
    private let trouble: ListenerTrouble
    private let isStopped: @Sendable () -> Bool

    /// - Parameter isStopped: Returns whether the listener has stopped, and must not accept again.
    init(name: String, _ trouble: ListenerTrouble, isStopped: @escaping @Sendable () -> Bool) {
        self.name = name
        self.trouble = trouble
        self.isStopped = isStopped
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let number = (error as? IOError)?.errnoCode ?? 0
        switch number {
        case ECONNABORTED: break  // The client has ended the connection, which is no longer in the queue.
        case EMFILE, ENFILE, ENOBUFS, ENOMEM:
            trouble.report("the \(name) accepts no connections: \(ListenerError.reason(error))", .warning)
            pause(context.channel)
        default:
            // NIO closes the socket.
            trouble.report("the \(name) has stopped listening: \(ListenerError.reason(error))", .error)
            context.fireErrorCaught(error)
        }
    }

    private func pause(_ channel: any Channel) {
        _ = channel.setOption(ChannelOptions.autoRead, value: false)
        channel.eventLoop.scheduleTask(in: TimeAmount(trouble.nextDelay())) { [isStopped] in
            guard channel.isActive, !isStopped() else { return }
            _ = channel.setOption(ChannelOptions.autoRead, value: true)
        }
    }
}
