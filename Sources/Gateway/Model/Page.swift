// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A request for one page of a list.
package struct PageRequest: Hashable, Sendable {
    package static let most = 500

    /// The ``Page/next`` of the page before; `nil` for the first page.
    package var after: String?
    /// The largest number of items, from 1 to 500.
    package var limit: Int

    package init(after: String? = nil, limit: Int = 100) {
        self.after = after
        self.limit = min(max(limit, 1), Self.most)
    }
}

/// One page of a list.
package struct Page<Element: Sendable>: Sendable {
    package var items: [Element]
    /// The ``PageRequest/after`` of the next page; `nil` after the last page.
    package var next: String?

    package init(items: [Element], next: String?) {
        self.items = items
        self.next = next
    }
}
