// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Hands elements from tasks that have them to one that takes them; who has one more than that waits.
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

    /// An empty one.
    package init() {}

    /// Puts an element there; returns when there is room for another.
    /// - Returns: false when nobody will take it, since it was cancelled or finished, or the calling task is cancelled.
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

    /// Takes the next element; nil when there are none left and none will come. One task at a time.
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

    /// Nothing more will come; what is there can still be taken. Safe to repeat.
    package func finish() {
        let taker = state.withLock { state in
            state.isFinished = true
            defer { state.taker = nil }
            return state.taker
        }
        taker?.resume(returning: nil)
    }

    /// Nothing more will be taken: what is there is dropped, and who waits goes on. Safe to repeat.
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
