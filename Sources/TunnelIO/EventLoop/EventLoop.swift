// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Waits for descriptors, deadlines and calls from other threads, and runs a handler for each on one thread.
///
/// You can call every method from any thread. Handlers run on the thread that is in ``run(afterEachRound:)``, one at a time.
/// A handler that is unregistered or stopped on that thread is not called again, not even for events that were already
/// reported. A loop runs once: it cannot run again after ``stop()``. Descriptors are level-triggered, and their owners close
/// them.
public final class EventLoop: Sendable {
    /// The awaited events of a descriptor. If it is empty, nothing is reported, hang-ups and errors included.
    public struct Interest: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt8
        /// A set of these bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        /// There is something to read.
        public static let readable = Interest(rawValue: 1)
        /// There is room to write.
        public static let writable = Interest(rawValue: 2)
        /// Only hang-ups and errors, which the other two interests report too. On Linux, also the removal of a TUN
        /// device's interface and urgent data of a socket, with an empty ``Readiness``. On Darwin, this interest
        /// reports nothing.
        public static let end = Interest(rawValue: 4)
    }

    /// The reported events of a descriptor.
    public struct Readiness: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt8
        /// A set of these bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        /// There is something to read.
        public static let readable = Readiness(rawValue: 1)
        /// There is room to write.
        public static let writable = Readiness(rawValue: 2)
        /// The other side has closed.
        public static let hangup = Readiness(rawValue: 4)
        /// An error is pending.
        public static let error = Readiness(rawValue: 8)
    }

    /// A watched descriptor; ``register(_:for:handler:)`` returns it.
    public struct Registration: Hashable, Sendable {
        let token: UInt64
        /// The descriptor.
        public let descriptor: Int32
    }

    /// A one-shot timer, which can be set any number of times; ``makeTimer(_:)`` creates it.
    public struct Timer: Hashable, Sendable {
        let token: UInt64
    }

    let state: Mutex<State>
    let poller: Poller
    private let stopped = Atomic<Bool>(false)
    private let wakePending = Atomic<Bool>(false)
    private let loopThread = Atomic<UInt>(0)
    private let thread = Mutex<LoopThread?>(nil)
    private let failure = Mutex<TunnelIOError?>(nil)

    /// A loop that watches nothing yet.
    /// - Throws: `.eventLoop` when the system refuses the descriptors.
    public init() throws(TunnelIOError) {
        poller = try Poller()
        state = Mutex(State())
    }

    // MARK: - Running

    /// Runs handlers on the calling thread until ``stop()``. Returns immediately if the loop was already stopped.
    ///
    /// - Parameter endRound: called at the end of each round, after descriptors, timers and work.
    /// - Throws: `.eventLoop` if the loop is already running or the system fails.
    public func run(afterEachRound endRound: () -> Void = {}) throws(TunnelIOError) {
        let isFirst = state.withLock { state in
            guard state.phase == .idle else { return false }
            state.phase = .running
            return true
        }
        guard isFirst else {
            if isStopped { return }
            throw TunnelIOError(.eventLoop(operation: "run: the loop is already running"))
        }
        loopThread.store(LoopThread.current, ordering: .releasing)
        defer { finish() }
        let events = PollerEvents()
        while !isStopped {
            let count = try poller.wait(into: events)
            var timerFired = false
            var wasWoken = false
            var index = 0
            while index < count, !isStopped {
                let event = events[index]
                index += 1
                switch event.token {
                case Poller.wakeToken:
                    poller.clearWake()
                    // Cleared before the work is removed, so that later work wakes the loop again.
                    wakePending.store(false, ordering: .sequentiallyConsistent)
                    wasWoken = true
                case Poller.timerToken:
                    poller.clearTimer()
                    timerFired = true
                default:
                    let handler = state.withLock { $0.sources.handler(of: event.token) }
                    handler?.call(event.readiness)
                }
            }
            if timerFired { runTimers() }
            if wasWoken { runWork() }
            if !isStopped { endRound() }
        }
    }

    /// Makes ``run(afterEachRound:)`` return after the handler that is running. Safe from any thread, from a handler, before
    /// the run and more than once.
    public func stop() {
        stopped.store(true, ordering: .sequentiallyConsistent)
        poller.wake()
    }

    /// Runs the loop on a new thread with this name.
    /// - Parameter endRound: called at the end of each round, after descriptors, timers and work.
    /// - Throws: `.eventLoop` when there is such a thread already or the system refuses one.
    public func startThread(
        name: String, afterEachRound endRound: @escaping @Sendable () -> Void = {}
    ) throws(TunnelIOError) {
        try thread.withLock { (thread) throws(TunnelIOError) in
            guard thread == nil else {
                throw TunnelIOError(.eventLoop(operation: "startThread: the loop has a thread already"))
            }
            thread = try LoopThread(name: name) {
                do throws(TunnelIOError) {
                    try self.run(afterEachRound: endRound)
                } catch {
                    self.failure.withLock { $0 = error }
                }
            }
        }
    }

    /// Waits until the thread of ``startThread(name:afterEachRound:)`` has ended. Returns immediately on that thread, or if
    /// there is none.
    /// - Throws: the error that ``run(afterEachRound:)`` threw on it.
    public func join() throws(TunnelIOError) {
        thread.withLock { $0 }?.join()
        if let error = failure.withLock({ $0 }) { throw error }
    }

    /// Whether ``stop()`` was called.
    public var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Whether the calling thread is the one in ``run(afterEachRound:)``.
    public var isOnLoopThread: Bool {
        loopThread.load(ordering: .acquiring) == LoopThread.current
    }

    // MARK: - Calls from other threads

    /// Runs `work` on the loop's thread, after the handlers of a round. Work queued by a handler runs in the next round, and
    /// work queued before ``run(afterEachRound:)`` in the first.
    /// - Returns: false if the run has ended or is about to; `work` then never runs.
    @discardableResult
    public func perform(_ work: @escaping @Sendable () -> Void) -> Bool {
        let isQueued = state.withLock { state in
            guard state.phase != .finished else { return false }
            state.work.append(work)
            return true
        }
        if isQueued { wake() }
        return isQueued
    }

    /// Makes the loop run a round, even if nothing is ready. Several calls before that round cause only one.
    public func wake() {
        guard !wakePending.exchange(true, ordering: .sequentiallyConsistent) else { return }
        poller.wake()
    }

    // MARK: - The rest of a round

    private func runWork() {
        let work = state.withLock { state in
            var work: [@Sendable () -> Void] = []
            swap(&work, &state.work)
            return work
        }
        for item in work { item() }
    }

    /// Refuses further work, runs the work in the queue, so that no caller waits forever, and releases all handlers.
    private func finish() {
        let rest = state.withLock { state in
            let rest = state
            state = State()
            state.phase = .finished
            return rest
        }
        for source in rest.sources.all { poller.remove(source.descriptor, interest: source.interest) }
        for item in rest.work { item() }
        loopThread.store(0, ordering: .releasing)
    }
}

extension EventLoop {
    /// A closure in an object. If the lock's generic code returned the closure itself, each return would allocate a
    /// wrapper.
    final class Handler: Sendable {
        let call: @Sendable (Readiness) -> Void

        init(_ call: @escaping @Sendable (Readiness) -> Void) {
            self.call = call
        }
    }

    /// The state that the lock protects.
    struct State {
        enum Phase {
            case idle
            case running
            case finished
        }

        struct Source {
            let token: UInt64
            let descriptor: Int32
            var interest: Interest
            let handler: Handler
        }

        /// The watched descriptors in the order of their tokens, which only increase. A loop looks one up for each
        /// event, and has few of them: hashing the token would take longer.
        struct Sources {
            var all: [Source] = []

            /// Adds a source with a greater token than the rest.
            mutating func append(_ source: Source) { all.append(source) }

            func index(of token: UInt64) -> Int? {
                var range = 0..<all.count
                while !range.isEmpty {
                    let middle = range.lowerBound + range.count / 2
                    if all[middle].token == token { return middle }
                    range = all[middle].token < token ? middle + 1..<range.upperBound : range.lowerBound..<middle
                }
                return nil
            }

            func handler(of token: UInt64) -> Handler? { index(of: token).map { all[$0].handler } }

            mutating func remove(_ token: UInt64) -> Source? { index(of: token).map { all.remove(at: $0) } }
        }

        struct Deadline {
            var token: UInt64
            /// Int64.max while it is not set.
            var time: Int64
            var lastRound: UInt64
            var handler: Handler
        }

        var phase = Phase.idle
        var sources = Sources()
        /// The token of each watched descriptor.
        var owners: [Int32: UInt64] = [:]
        var timers: [Deadline] = []
        /// The time of the poller's timer; `Int64.max` if it is not set.
        var armed = Int64.max
        var timerRound: UInt64 = 0
        var work: [@Sendable () -> Void] = []
        var nextToken = Poller.firstSourceToken

        mutating func makeToken() -> UInt64 {
            defer { nextToken &+= 1 }
            return nextToken
        }
    }
}
