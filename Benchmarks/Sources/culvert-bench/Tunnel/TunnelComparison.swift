// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

enum TunnelComparison {
    static func run(_ arguments: [String]) throws {}
}
