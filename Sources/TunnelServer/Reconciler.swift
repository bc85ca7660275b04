// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The desired state of one part of a system, and the state that is known to be applied.
///
/// Nothing counts as applied while an update runs or after it failed: the next update then applies the whole desired state.
package struct Reconciler<Key: Hashable & Sendable, Value: Equatable & Sendable>: Sendable {
    /// The values that the system must have, and those that it refuses.
    package private(set) var desired: [Key: Value] = [:]
    /// The values that the system refused, each with the reason. It has no value for these keys.
    package private(set) var refused: [Key: String] = [:]
    /// The keys whose value in the system differs from the desired value, each with the system's value; `nil` if it has none.
    /// Only the differences are stored, since a gateway has thousands of values.
    private var differences: [Key: Value?] = [:]
    /// Whether the system has exactly the desired values, except for `differences`.
    package private(set) var isKnown: Bool
    /// The keys of the update that runs; `nil` without one, and if it applies everything.
    private var changing: Set<Key>?
    /// The number of the last update. Another process may change the system while an update runs: the update's number is old then.
    private var number = 0

    /// The changes that a system needs.
    package struct Update: Sendable {
        /// The new value of each key; `nil` removes the key.
        package let changes: [Key: Value?]
        /// The values that the system has for these keys; empty if that is not known.
        package let previous: [Key: Value]
        /// Whether the system must have exactly these values, since its present state is not known.
        package let isComplete: Bool
        fileprivate let number: Int

        package var isEmpty: Bool { changes.isEmpty && !isComplete }
    }

    /// - Parameter isKnown: `false` if the system may have values already.
    package init(isKnown: Bool = true) { self.isKnown = isKnown }

    /// Whether the system has all desired values, except for those that it refuses.
    package var isCurrent: Bool { isKnown && differences.count == refused.count }

    /// The values that the system has; `nil` if that is not known.
    package var present: [Key: Value]? {
        guard isKnown else { return nil }
        var present = desired
        for (key, value) in differences { present[key] = value }
        return present
    }

    /// Whether the system has the desired value of a key. An update of other keys does not matter, as long as it has not failed.
    package func isApplied(_ key: Key) -> Bool {
        (isKnown || changing?.contains(key) == false) && differences[key] == nil
    }

    package mutating func setDesired(_ value: Value?, for key: Key) {
        let present = differences[key] ?? desired[key]
        guard desired[key] != value else { return }
        desired[key] = value
        refused[key] = nil
        record(present, for: key)
    }

    /// Records the value that the system has for a key.
    private mutating func record(_ present: Value?, for key: Key) {
        if present == desired[key] {
            differences[key] = nil
        } else {
            differences.updateValue(present, forKey: key)
        }
    }

    /// Makes the next update apply everything, since another process has changed the system.
    package mutating func invalidate() {
        (isKnown, changing) = (false, nil)
        number += 1
    }

    /// Begins an update. Without ``finish(_:refused:)`` it counts as failed.
    /// - Parameter retryingRefused: Whether values that the system refused before are tried again.
    package mutating func begin(retryingRefused: Bool = true) -> Update {
        let wasKnown = isKnown
        invalidate()
        guard wasKnown else {
            return Update(changes: desired.mapValues { Optional($0) }, previous: [:], isComplete: true, number: number)
        }
        var (changes, previous): ([Key: Value?], [Key: Value]) = ([:], [:])
        for (key, value) in differences where retryingRefused || refused[key] == nil {
            changes.updateValue(desired[key], forKey: key)
            previous[key] = value
        }
        changing = Set(changes.keys)
        return Update(changes: changes, previous: previous, isComplete: false, number: number)
    }

    /// Records that an update was applied. If another update has begun, or the state was invalidated meanwhile, the state
    /// stays unknown.
    /// - Parameter refused: The keys that have no value now, because the system refused the new value.
    package mutating func finish(_ update: Update, refused new: [Key: String] = [:]) {
        guard update.number == number else { return }
        if update.isComplete {
            (differences, refused) = ([:], [:])
            for key in desired.keys where update.changes[key] == nil { record(nil, for: key) }
        }
        for (key, value) in update.changes {
            // A value that has since replaced a refused one is not refused.
            refused[key] = desired[key] == value ? new[key] : nil
            record(new[key] == nil ? value : nil, for: key)
        }
        // A dictionary keeps the memory of removed elements.
        if differences.isEmpty { differences = [:] }
        (isKnown, changing) = (true, nil)
    }

    /// Applies the differences, or everything if the present state is not known.
    /// - Parameter apply: Returns the values that the system refused. Its error leaves the state unknown.
    package mutating func update<Failure: Error>(
        retryingRefused: Bool = true, _ apply: (Update) throws(Failure) -> [Key: String]
    ) throws(Failure) {
        let update = begin(retryingRefused: retryingRefused)
        finish(update, refused: update.isEmpty ? [:] : try apply(update))
    }
}
