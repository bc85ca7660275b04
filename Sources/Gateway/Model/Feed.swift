// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The devices that differ from an earlier state of the store, all read at one moment.
package struct Feed<Item: Sendable>: Sendable {
    /// The last change that the feed includes. The next feed starts after it.
    package var sequence: Int64
    /// Whether ``changed`` lists every device of the store.
    package var isComplete: Bool
    /// The devices that are new or changed, in their current state.
    package var changed: [Item]
    package var removed: [DeviceID]
    /// Whether the gateway's own keys may have changed.
    package var serverKeysChanged: Bool

    package init(
        sequence: Int64, isComplete: Bool = false, changed: [Item] = [], removed: [DeviceID] = [],
        serverKeysChanged: Bool = false
    ) {
        self.sequence = sequence
        self.isComplete = isComplete
        self.changed = changed
        self.removed = removed
        self.serverKeysChanged = serverKeysChanged
    }

    package func map<Other: Sendable>(_ transform: (Item) -> Other) -> Feed<Other> {
        Feed<Other>(
            sequence: sequence, isComplete: isComplete, changed: changed.map(transform), removed: removed,
            serverKeysChanged: serverKeysChanged)
    }
}
