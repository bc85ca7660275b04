// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Schema {
    /// Adds the owner of a fixed address: only this user's logins get it. Adds an index of the users with a password.
    ///
    /// If the user is removed, the row stays. Without it, the address would never be given again.
    ///
    /// `addresses_at_rest` leaves out fixed addresses, so that a search for a rested address does not read them.
    static let userAddresses = """
        ALTER TABLE addresses ADD COLUMN owner_id TEXT REFERENCES users (id) ON DELETE SET NULL;
        CREATE UNIQUE INDEX addresses_of_users ON addresses (owner_id, family) WHERE owner_id IS NOT NULL;
        DROP INDEX addresses_at_rest;
        CREATE INDEX addresses_at_rest ON addresses (network, released_at) WHERE device_id IS NULL AND owner_id IS NULL;
        CREATE INDEX users_with_password ON users (id) WHERE password IS NOT NULL;
        """
}
