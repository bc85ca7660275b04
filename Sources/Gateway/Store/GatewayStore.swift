// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Where a gateway keeps users, devices, tokens, rules and the log of what was done.
///
/// Each operation is one transaction.
package protocol GatewayStore: Sendable {}
