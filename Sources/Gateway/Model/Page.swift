// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Which part of a list is wanted.
package struct PageRequest: Hashable, Sendable {
    package static let most = 500

    /// What ``Page/next`` said; nil for the first page.
    package var after: String?
    /// 1 to 500.
    package var limit: Int

    package init(after: String? = nil, limit: Int = 100) {
        self.after = after
        self.limit = min(max(limit, 1), Self.most)
    }
}

/// A part of a list.
package struct Page<Element: Sendable>: Sendable {
    package var items: [Element]
    /// Asks for the next page; nil after the last.
    package var next: String?

    package init(items: [Element], next: String?) {
        self.items = items
        self.next = next
    }
}
