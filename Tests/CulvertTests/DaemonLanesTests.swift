// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelIO
import WireGuardDevice

@testable import culvert_wg

@Suite("The variable CULVERT_LANES of culvert-wg")
struct DaemonLanesTests {
    private func options(_ lanes: String?, memory: String? = nil) throws -> DaemonOptions? {
        let request = try DaemonOptions.parse(["wg0"]) { name in
            switch name {
            case "CULVERT_LANES": lanes
            case "CULVERT_MEMORY": memory
            default: nil
            }
        }
        guard case .run(let options) = request else { return nil }
        return options
    }

    @Test("Each value selects a layout without a warning; without a value, the layout is auto")
    func values() throws {
        let values: [(String?, LaneLayout)] = [
            (nil, .automatic), ("", .automatic), ("auto", .automatic), ("server", .server), ("1", .single),
            ("2", .perDirection), ("8", .many(lanes: 8)), ("2+0", .many(lanes: 2)),
        ]
        for (value, layout) in values {
            let options = try #require(try options(value))
            #expect(options.layout == layout && options.warnings.isEmpty)
        }
    }

    @Test("Lanes and workers, as earlier versions had them, select the lanes, with a warning")
    func workers() throws {
        let options = try #require(try options("4+2"))
        #expect(options.layout == .many(lanes: 4))
        #expect(options.warnings == ["CULVERT_LANES is '4+2', but workers no longer exist; ignoring '+2'"])
    }

    @Test("Other values are refused by name, with the valid ones")
    func badValue() {
        let error = #expect(throws: DaemonOptions.UsageError.self) { try options("many") }
        #expect(
            error?.message == "CULVERT_LANES is 'many'; it must be auto, server, 1, 2, or a number of lanes up to 64")
    }

    @Test("A memory budget for a gateway has room for the lanes")
    func memory() throws {
        #expect(try options("8", memory: "gateway:100")?.budget?.lanes == 8)
        #expect(try options("auto", memory: "gateway:100")?.budget?.lanes == 1)
    }
}
