// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The measurements of single systems.
enum PlatformCommands {
    static let usage = ""

    /// This system has no measurements within one process in addition to the common suites.
    static func suites(isQuick: Bool) -> [Suite] { [] }

    /// - Returns: false for a command that this system does not know.
    static func run(_ command: String, _ arguments: ArraySlice<String>) throws -> Bool { false }

    /// Allocations of single stages are not measured on this system.
    static func stageAllocations(_ counter: AllocationCounter, isQuick: Bool) throws -> [Row] { [] }
}
