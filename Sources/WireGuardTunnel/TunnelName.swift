// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What the WireGuard provider is called in logs and status.
enum TunnelName {
    static let provider = "wireguard"
}
