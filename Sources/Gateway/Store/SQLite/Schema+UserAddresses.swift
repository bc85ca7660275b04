// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Schema {
    /// Adds the user to whom an address belongs: only logins of this user get it.
    ///
    /// If the user is removed, the row stays. Without it, the address would never be given again.
    static let userAddresses = """
        ALTER TABLE addresses ADD COLUMN owner_id TEXT REFERENCES users (id) ON DELETE SET NULL;
        CREATE UNIQUE INDEX addresses_of_users ON addresses (owner_id, family) WHERE owner_id IS NOT NULL;
        """
}
