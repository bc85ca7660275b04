// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Schema {
    /// Adds the user whose device has released an address.
    ///
    /// `user_id` has no foreign key because an address rests even if its user was removed.
    static let cooldowns = """
        ALTER TABLE addresses ADD COLUMN user_id TEXT;
        CREATE INDEX addresses_at_rest_by_user ON addresses (user_id, network, released_at) WHERE device_id IS NULL;
        """
}
