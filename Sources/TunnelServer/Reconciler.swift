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
    private var applied: [Key: Value] = [:]
    /// Whether the system has exactly the values in `applied`.
    private var isKnown: Bool
    /// The keys of the update that runs; `nil` without one, and if it applies everything.
    private var changing: Set<Key>?
    /// The keys whose desired value may differ from the applied one.
    private var dirtyKeys: Set<Key> = []

    /// The changes that a system needs.
    package struct Update: Sendable {
        /// The new value of each key; `nil` removes the key.
        package let changes: [Key: Value?]
        /// The values that the system has for these keys; empty if that is not known.
        package let previous: [Key: Value]
        /// Whether the system must have exactly these values, since its present state is not known.
        package let isComplete: Bool

        package var isEmpty: Bool { changes.isEmpty && !isComplete }
    }

    /// - Parameter isKnown: `false` if the system may have values already.
    package init(isKnown: Bool = true) { self.isKnown = isKnown }

    /// Whether the system has all desired values, except for those that it refuses.
    package var isCurrent: Bool { isKnown && dirtyKeys.isEmpty }

    /// The values that the system has; `nil` if that is not known.
    package var present: [Key: Value]? { isKnown ? applied : nil }

    /// Whether the system has the desired value of a key. An update of other keys does not matter, as long as it has not failed.
    package func isApplied(_ key: Key) -> Bool {
        guard isKnown || changing?.contains(key) == false else { return false }
        return applied[key] == desired[key]
    }

    package mutating func setDesired(_ value: Value?, for key: Key) {
        guard desired[key] != value else { return }
        desired[key] = value
        refused[key] = nil
        dirtyKeys.insert(key)
    }

    /// Has the next update apply everything, since another process has changed the system.
    package mutating func invalidate() { (isKnown, changing) = (false, nil) }

    /// Begins an update. Without ``finish(_:refused:)`` it counts as failed.
    /// - Parameter retryingRefused: Whether values that the system refused before are tried again.
    package mutating func begin(retryingRefused: Bool = true) -> Update {
        if retryingRefused { dirtyKeys.formUnion(refused.keys) }
        let wasKnown = isKnown
        (isKnown, changing) = (false, nil)
        defer { dirtyKeys = [] }
        guard wasKnown else {
            return Update(changes: desired.mapValues { Optional($0) }, previous: [:], isComplete: true)
        }
        var (changes, previous): ([Key: Value?], [Key: Value]) = ([:], [:])
        for key in dirtyKeys where applied[key] != desired[key] {
            changes.updateValue(desired[key], forKey: key)
            previous[key] = applied[key]
        }
        changing = Set(changes.keys)
        return Update(changes: changes, previous: previous, isComplete: false)
    }

    /// Records that an update was applied.
    /// - Parameter refused: The keys that have no value now, since the system refused the new one.
    package mutating func finish(_ update: Update, refused new: [Key: String] = [:]) {
        if update.isComplete {
            applied = update.changes.compactMapValues { $0 }
            refused = new
            for key in new.keys { applied[key] = nil }
        } else {
            for (key, value) in update.changes {
                applied[key] = new[key] == nil ? value : nil
                refused[key] = new[key]
            }
        }
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
