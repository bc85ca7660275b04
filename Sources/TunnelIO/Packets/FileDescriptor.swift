// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A file descriptor with one owner, closed exactly once: when the owner goes, unless it was taken.
package struct OwnedDescriptor: ~Copyable, Sendable {
    /// The descriptor's number, valid while this value lives.
    package let number: Int32

    /// Takes over `number`, which nobody else may close from here on.
    package init(_ number: Int32) {
        self.number = number
    }

    deinit {
        // Not repeated after EINTR: the number is free by then and may be another thread's already.
        _ = close(number)
    }

    /// Gives the descriptor away, still open.
    package consuming func take() -> Int32 {
        let number = number
        discard self
        return number
    }
}

/// A descriptor that several threads use and any of them may close.
///
/// A number that is closed while another thread is between looking it up and its system call could by then name some
/// other file. So each use is bracketed, and the last one out closes. Uses neither block nor exclude each other.
package final class SharedDescriptor: Sendable {
    /// The descriptor's number. Only for registering it with an event loop that lets go of it before ``close()``.
    package let number: Int32
    /// The uses under way, plus `closing` once ``close()`` was called.
    private let uses = Atomic<UInt64>(0)
    private static let closing: UInt64 = 1 << 63

    /// Takes over `descriptor`.
    package init(_ descriptor: consuming OwnedDescriptor) {
        number = descriptor.take()
    }

    deinit {
        close()
    }

    /// Begins a use.
    /// - Returns: false after ``close()``; otherwise the caller must ``release()`` when done.
    @inline(__always)
    package func acquire() -> Bool {
        if uses.wrappingAdd(1, ordering: .acquiring).newValue & Self.closing == 0 { return true }
        release()
        return false
    }

    /// Ends a use.
    @inline(__always)
    package func release() {
        let left = uses.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
        if left == Self.closing { finish() }
    }

    /// Refuses further uses and closes as soon as those under way end. Safe to repeat.
    package func close() {
        let before = uses.bitwiseOr(Self.closing, ordering: .acquiringAndReleasing).oldValue
        if before == 0 { finish() }
    }

    /// Whether ``close()`` was called.
    package var isClosed: Bool { uses.load(ordering: .acquiring) & Self.closing != 0 }

    /// Closes once: a late ``acquire()`` that is refused passes through the same count again.
    private func finish() {
        let done = Self.closing | (1 << 62)
        guard uses.compareExchange(expected: Self.closing, desired: done, ordering: .acquiringAndReleasing).exchanged
        else { return }
        _ = unistdClose(number)
    }
}

/// The system's `close`, where a method of that name hides it.
private func unistdClose(_ descriptor: Int32) -> Int32 {
    close(descriptor)
}

/// System calls, called again while a signal interrupts them.
package enum SystemCall {
    /// The call's result; negative when it failed, with the reason in `errno`.
    @inline(__always)
    package static func retry<Result: FixedWidthInteger & SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result >= 0 || errno != EINTR { return result }
        }
    }

    /// The call's result.
    /// - Throws: `code` with the system's error number when it failed.
    @discardableResult
    package static func check<Result: FixedWidthInteger & SignedInteger>(
        _ code: @autoclosure () -> TunnelIOError.Code, _ call: () -> Result
    ) throws(TunnelIOError) -> Result {
        let result = retry(call)
        guard result >= 0 else {
            let reason = errno
            throw TunnelIOError(code(), errno: reason)
        }
        return result
    }
}
