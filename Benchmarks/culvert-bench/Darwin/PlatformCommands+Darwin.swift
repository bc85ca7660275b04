// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What only some systems can measure.
enum PlatformCommands {
    static let usage = ""

    /// What this system can measure inside one process beside the suites of all: nothing.
    static func suites(isQuick: Bool) -> [Suite] { [] }

    /// - Returns: false for a command that this system does not know.
    static func run(_ command: String, _ arguments: ArraySlice<String>) throws -> Bool { false }

    /// Allocations of single stages: none are told apart here.
    static func stageAllocations(_ counter: AllocationCounter, isQuick: Bool) throws -> [Row] { [] }
}
