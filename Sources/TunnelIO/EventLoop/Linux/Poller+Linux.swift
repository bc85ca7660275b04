// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// Waits for an event loop's events: epoll, with an eventfd that wakes it and a timerfd on ``LaneClock``.
    final class Poller: Sendable {
        /// Tokens of the poller's own descriptors; those of sources start behind them.
        static let wakeToken: UInt64 = 0
        static let timerToken: UInt64 = 1
        static let firstSourceToken: UInt64 = 2

        private let epoll: Int32
        private let timer: Int32
        private let signal: WakeSignal

        init() throws(TunnelIOError) {
            signal = try WakeSignal()
            epoll = ctunnel_epoll_create()
            guard epoll >= 0 else { throw TunnelIOError(.eventLoop(operation: "epoll_create1"), errno: errno) }
            timer = ctunnel_timerfd()
            // All members are set by now, so if this fails, `deinit` closes what is open.
            guard timer >= 0 else { throw TunnelIOError(.eventLoop(operation: "timerfd_create"), errno: errno) }
            try add(signal.descriptor, token: Self.wakeToken, interest: .readable)
            try add(timer, token: Self.timerToken, interest: .readable)
        }

        deinit {
            _ = close(timer)
            _ = close(epoll)
        }

        func add(_ descriptor: Int32, token: UInt64, interest: EventLoop.Interest) throws(TunnelIOError) {
            guard ctunnel_epoll_add(epoll, descriptor, interest.epollEvents, token) == 0 else {
                throw TunnelIOError(.eventLoop(operation: "watching descriptor \(descriptor)"), errno: errno)
            }
        }

        func modify(
            _ descriptor: Int32, token: UInt64, from old: EventLoop.Interest, to new: EventLoop.Interest
        ) throws(TunnelIOError) {
            guard ctunnel_epoll_modify(epoll, descriptor, new.epollEvents, token) == 0 else {
                throw TunnelIOError(.eventLoop(operation: "changing descriptor \(descriptor)"), errno: errno)
            }
        }

        /// Closing a descriptor also removes it, so a failure here is not an error.
        func remove(_ descriptor: Int32, interest: EventLoop.Interest) {
            _ = ctunnel_epoll_remove(epoll, descriptor)
        }

        /// Makes the timer fire once, at `deadline` on ``LaneClock``.
        func arm(deadline: Int64) {
            // Zero would disarm it.
            let time = max(deadline, 1)
            _ = ctunnel_timerfd_set(
                timer, time / LaneClock.nanosecondsPerSecond, time % LaneClock.nanosecondsPerSecond)
        }

        func clearTimer() {
            var expirations: UInt64 = 0
            _ = unsafe read(timer, &expirations, 8)
        }

        func wake() { signal.raise() }

        func clearWake() { signal.clear() }

        /// Blocks until something is ready.
        /// - Returns: the number of events.
        func wait(into events: PollerEvents) throws(TunnelIOError) -> Int {
            while true {
                let count = unsafe ctunnel_epoll_wait(epoll, events.storage, Int32(PollerEvents.capacity))
                if count >= 0 { return Int(count) }
                guard errno == EINTR else {
                    throw TunnelIOError(.eventLoop(operation: "epoll_wait"), errno: errno)
                }
            }
        }
    }

    /// The events of one wait.
    @safe
    final class PollerEvents {
        static let capacity = 64
        fileprivate let storage: UnsafeMutablePointer<epoll_event>

        init() {
            unsafe storage = .allocate(capacity: Self.capacity)
            unsafe storage.initialize(repeating: epoll_event(), count: Self.capacity)
        }

        deinit {
            unsafe storage.deallocate()
        }

        subscript(index: Int) -> (token: UInt64, readiness: EventLoop.Readiness) {
            precondition(index >= 0 && index < Self.capacity)
            let event = unsafe storage[index]
            let bits = unsafe event.events
            var readiness: EventLoop.Readiness = []
            if bits & CTUNNEL_EPOLLIN != 0 { readiness.insert(.readable) }
            if bits & CTUNNEL_EPOLLOUT != 0 { readiness.insert(.writable) }
            if bits & CTUNNEL_EPOLLERR != 0 { readiness.insert(.error) }
            if bits & CTUNNEL_EPOLLHUP != 0 { readiness.insert(.hangup) }
            return (unsafe event.data.u64, readiness)
        }
    }

    extension EventLoop.Interest {
        fileprivate var epollEvents: UInt32 {
            (contains(.readable) ? CTUNNEL_EPOLLIN : 0) | (contains(.writable) ? CTUNNEL_EPOLLOUT : 0)
                // When its interface is removed, a TUN device wakes waiters as if it had data and urgent data to read;
                // the kernel skips waiters that asked for neither. A TUN device never has urgent data, so `EPOLLPRI`
                // reports only the removal.
                | (contains(.end) ? CTUNNEL_EPOLLPRI : 0)
        }
    }
#endif
