// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Passes elements from producers to one consumer. It stores one element; a producer with another one waits.
package final class Handoff<Element: Sendable>: Sendable {
    private struct State {
        var element: Element?
        var senders: [(element: Element, continuation: CheckedContinuation<Bool, Never>)] = []
        var taker: CheckedContinuation<Element?, Never>?
        var isFinished = false
        var isCancelled = false
    }

    private enum SendStep {
        case refused
        case stored
        case waits
        case taken(CheckedContinuation<Element?, Never>)
    }

    private enum TakeStep {
        case waits
        case gives(Element?, CheckedContinuation<Bool, Never>?)
    }

    private let state = Mutex(State())

    /// Creates an empty handoff.
    package init() {}

    /// Adds an element; returns when there is room for another.
    /// - Returns: `false` if the element will not be consumed, because the handoff was cancelled or finished, or the calling
    ///   task is cancelled.
    package func send(_ element: Element) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let step = state.withLock { state -> SendStep in
                    guard !state.isCancelled, !state.isFinished else { return .refused }
                    if let taker = state.taker {
                        state.taker = nil
                        return .taken(taker)
                    }
                    guard state.element != nil else {
                        state.element = element
                        return .stored
                    }
                    state.senders.append((element, continuation))
                    return .waits
                }
                switch step {
                case .refused: continuation.resume(returning: false)
                case .stored: continuation.resume(returning: true)
                case .waits: break
                case .taken(let taker):
                    taker.resume(returning: element)
                    continuation.resume(returning: true)
                }
            }
        } onCancel: {
            cancel()
        }
    }

    /// Returns the next element, or `nil` if none is left and none will be added. Only one task may call it at a time.
    package func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let step = state.withLock { state -> TakeStep in
                    guard let element = state.element else {
                        guard !state.isFinished, !state.isCancelled, state.taker == nil else { return .gives(nil, nil) }
                        state.taker = continuation
                        return .waits
                    }
                    let sender = state.senders.isEmpty ? nil : state.senders.removeFirst()
                    state.element = sender?.element
                    return .gives(element, sender?.continuation)
                }
                guard case .gives(let element, let sender) = step else { return }
                continuation.resume(returning: element)
                sender?.resume(returning: true)
            }
        } onCancel: {
            cancel()
        }
    }

    /// Ends production; present elements can still be consumed. It may be called repeatedly.
    package func finish() {
        let taker = state.withLock { state in
            state.isFinished = true
            defer { state.taker = nil }
            return state.taker
        }
        taker?.resume(returning: nil)
    }

    /// Ends consumption: present elements are dropped, and waiting producers continue. It may be called repeatedly.
    package func cancel() {
        let (taker, senders) = state.withLock { state in
            state.isCancelled = true
            state.element = nil
            defer {
                state.taker = nil
                state.senders = []
            }
            return (state.taker, state.senders)
        }
        taker?.resume(returning: nil)
        for sender in senders { sender.continuation.resume(returning: false) }
    }
}
