// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Testing

@Suite("Stop reasons")
struct StopReasonTests {
    @Test("Stop reasons keep their words across processes", arguments: StopReason.allCases)
    func roundTrip(_ reason: StopReason) throws {
        let bytes = try JSONEncoder().encode([reason])
        #expect(try JSONDecoder().decode([StopReason].self, from: bytes) == [reason])
    }

    @Test("Stop reasons of a later version are unknown")
    func later() throws {
        #expect(try JSONDecoder().decode([StopReason].self, from: Data(#"["eclipse"]"#.utf8)) == [.unknown])
    }
}
