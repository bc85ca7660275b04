// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// Waits for an event loop's events: kqueue, with a user event that wakes it and a one-shot timer.
    ///
    /// Written from the manual pages, and not yet verified on a device.
    final class Poller: Sendable {
        /// Tokens of the poller's own events; those of sources start behind them.
        static let wakeToken: UInt64 = 0
        static let timerToken: UInt64 = 1
        static let firstSourceToken: UInt64 = 2

        private let queue: Int32

        init() throws(TunnelIOError) {
            queue = kqueue()
            guard queue >= 0 else { throw TunnelIOError(.eventLoop(operation: "kqueue"), errno: errno) }
            guard change(0, filter: EVFILT_USER, flags: EV_ADD | EV_CLEAR, token: Self.wakeToken) else {
                throw TunnelIOError(.eventLoop(operation: "adding the wake event"), errno: errno)
            }
        }

        deinit {
            _ = close(queue)
        }

        func add(_ descriptor: Int32, token: UInt64, interest: EventLoop.Interest) throws(TunnelIOError) {
            try modify(descriptor, token: token, from: [], to: interest)
        }

        func modify(
            _ descriptor: Int32, token: UInt64, from old: EventLoop.Interest, to new: EventLoop.Interest
        ) throws(TunnelIOError) {
            for (bit, filter) in Self.filters where old.contains(bit) != new.contains(bit) {
                let flags = new.contains(bit) ? EV_ADD : EV_DELETE
                guard change(UInt(descriptor), filter: filter, flags: flags, token: token) else {
                    throw TunnelIOError(.eventLoop(operation: "watching descriptor \(descriptor)"), errno: errno)
                }
            }
        }

        /// Closing a descriptor also removes it, so a failure here is not an error.
        func remove(_ descriptor: Int32, interest: EventLoop.Interest) {
            for (bit, filter) in Self.filters where interest.contains(bit) {
                _ = change(UInt(descriptor), filter: filter, flags: EV_DELETE, token: 0)
            }
        }

        /// Makes the timer fire once, at `deadline` on ``LaneClock``.
        func arm(deadline: Int64) {
            _ = change(
                1, filter: EVFILT_TIMER, flags: EV_ADD | EV_ONESHOT, token: Self.timerToken,
                filterFlags: UInt32(NOTE_NSECONDS) | UInt32(NOTE_MACH_CONTINUOUS_TIME),
                data: Int(max(deadline - LaneClock.now(), 1)))
        }

        /// Does nothing: the system removes a one-shot timer when it reports it.
        func clearTimer() {}

        func wake() {
            _ = change(0, filter: EVFILT_USER, flags: 0, token: Self.wakeToken, filterFlags: UInt32(NOTE_TRIGGER))
        }

        /// Does nothing: `EV_CLEAR` resets the event.
        func clearWake() {}

        /// Blocks until something is ready.
        /// - Returns: the number of events.
        func wait(into events: PollerEvents) throws(TunnelIOError) -> Int {
            while true {
                let count = unsafe kevent(queue, nil, 0, events.storage, Int32(PollerEvents.capacity), nil)
                if count >= 0 { return Int(count) }
                guard errno == EINTR else {
                    throw TunnelIOError(.eventLoop(operation: "kevent"), errno: errno)
                }
            }
        }

        private static let filters: [(EventLoop.Interest, Int32)] = [
            (.readable, EVFILT_READ), (.writable, EVFILT_WRITE),
        ]

        private func change(
            _ ident: UInt, filter: Int32, flags: Int32, token: UInt64, filterFlags: UInt32 = 0, data: Int = 0
        ) -> Bool {
            var event = unsafe Darwin.kevent(
                ident: ident, filter: Int16(filter), flags: UInt16(flags), fflags: filterFlags, data: data,
                udata: UnsafeMutableRawPointer(bitPattern: UInt(token)))
            return unsafe kevent(queue, &event, 1, nil, 0, nil) == 0
        }
    }

    /// The events of one wait.
    @safe
    final class PollerEvents {
        static let capacity = 64
        fileprivate let storage: UnsafeMutablePointer<kevent>

        init() {
            unsafe storage = .allocate(capacity: Self.capacity)
            unsafe storage.initialize(repeating: kevent(), count: Self.capacity)
        }

        deinit {
            unsafe storage.deallocate()
        }

        subscript(index: Int) -> (token: UInt64, readiness: EventLoop.Readiness) {
            precondition(index >= 0 && index < Self.capacity)
            let event = unsafe storage[index]
            var readiness: EventLoop.Readiness = unsafe event.filter == EVFILT_WRITE ? .writable : .readable
            if unsafe event.flags & UInt16(EV_EOF) != 0 { readiness.insert(.hangup) }
            if unsafe event.flags & UInt16(EV_ERROR) != 0 { readiness.insert(.error) }
            return (UInt64(UInt(bitPattern: unsafe event.udata)), readiness)
        }
    }
#endif
