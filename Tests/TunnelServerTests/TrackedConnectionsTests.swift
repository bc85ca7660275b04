// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelServer

@Suite struct TrackedConnectionsTests {
    @Test(
        "A table of connections that is full or nearly full is a warning, and one of unknown size is not",
        arguments: [
            (262_143, 262_144, true), (262_144, 262_144, true), (249_037, 262_144, true), (249_036, 262_144, false),
            (0, 262_144, false), (nil, 262_144, false), (5, nil, false), (0, 0, false),
        ] as [(Int?, Int?, Bool)])
    func warning(count: Int?, limit: Int?, isWarning: Bool) {
        let warning = TrackedConnections.warning(count: count, limit: limit)
        #expect((warning != nil) == isWarning)
        if let warning, let count, let limit {
            #expect(warning.contains("\(count) connections of at most \(limit)"), "\(warning)")
            #expect(warning.contains("nf_conntrack_max"))
        }
    }
}
