// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Schema {
    /// Adds the number of equal events to entries of the audit log.
    static let auditCounts = "ALTER TABLE audit ADD COLUMN count INTEGER NOT NULL DEFAULT 1"
}
