// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import Synchronization

/// A file descriptor with one owner. It is closed exactly once, when the owner is released, unless ownership was released
/// first.
package struct OwnedDescriptor: ~Copyable, Sendable {
    /// The descriptor's number, valid while this value lives.
    package let number: Int32

    /// Takes ownership of `number`, which only this value may close from now on.
    package init(_ number: Int32) {
        self.number = number
    }

    deinit {
        // Not repeated after EINTR: the number is free by then and may be another thread's already.
        _ = close(number)
    }

    /// Returns the descriptor, still open, and gives up its ownership.
    package consuming func release() -> Int32 {
        let number = number
        discard self
        return number
    }
}

/// A descriptor that several threads use and any of them may close.
///
/// If one thread closed the number between another thread's lookup and its system call, the number could already belong
/// to another file. So each use begins with ``acquire()`` and ends with ``release()``, and the end of the last use
/// closes the descriptor. Uses neither block nor exclude each other.
@usableFromInline
package final class SharedDescriptor: Sendable {
    /// The descriptor's number. Use it only to register with an event loop that unregisters it before ``close()``.
    package let number: Int32
    /// The number of uses in progress, plus `closing` once ``close()`` was called.
    @usableFromInline let uses = Atomic<UInt64>(0)
    @usableFromInline static var closing: UInt64 { 1 << 63 }

    /// Takes over `descriptor`.
    package init(_ descriptor: consuming OwnedDescriptor) {
        number = descriptor.release()
    }

    deinit {
        close()
    }

    /// Begins a use.
    /// - Returns: false after ``close()``; otherwise the caller must ``release()`` when done.
    @inlinable
    package func acquire() -> Bool {
        if uses.wrappingAdd(1, ordering: .acquiring).newValue & Self.closing == 0 { return true }
        release()
        return false
    }

    /// Ends a use.
    @inlinable
    package func release() {
        let left = uses.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
        if left == Self.closing { finish() }
    }

    /// Refuses further uses, and closes the descriptor when the uses in progress have ended. Safe to repeat.
    package func close() {
        let before = uses.bitwiseOr(Self.closing, ordering: .acquiringAndReleasing).oldValue
        if before == 0 { finish() }
    }

    /// Whether ``close()`` was called.
    package var isClosed: Bool { uses.load(ordering: .acquiring) & Self.closing != 0 }

    /// Closes the descriptor, once: after a late ``acquire()`` was refused, the count reaches `closing` again.
    @usableFromInline
    func finish() {
        let done = Self.closing | (1 << 62)
        guard uses.compareExchange(expected: Self.closing, desired: done, ordering: .acquiringAndReleasing).exchanged
        else { return }
        SystemCall.close(number)
    }
}
