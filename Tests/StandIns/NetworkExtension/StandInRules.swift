// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization

/// The violations of the real framework's rules, of which a test must have none.
public enum StandInRules {
    private static let broken = Mutex<[String]>([])

    /// The rules that were broken so far in this process.
    public static var violations: [String] { broken.withLock { $0 } }

    static func report(_ text: String) { broken.withLock { $0.append(text) } }
}

/// A completion handler that the framework gives to a provider: it counts its calls.
public final class StandInCompletion: Sendable {
    /// The subject of the rule.
    public let name: String
    private let calls = Atomic<Int>(0)

    init(_ name: String) { self.name = name }

    /// How often it was called.
    public var count: Int { calls.load(ordering: .acquiring) }

    func call() {
        if calls.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue == 1 {
            StandInRules.report("the completion handler of \(name) was called twice")
        }
    }
}

/// Autorelease pools of the process.
public enum StandInPools {
    private static let opened = Atomic<Int>(0)
    private static let open = Atomic<Int>(0)

    /// How many were opened.
    public static var openedCount: Int { opened.load(ordering: .relaxed) }

    /// How many are open.
    public static var openCount: Int { open.load(ordering: .relaxed) }

    static func enter() {
        opened.wrappingAdd(1, ordering: .relaxed)
        open.wrappingAdd(1, ordering: .relaxed)
    }

    static func leave() { open.wrappingSubtract(1, ordering: .relaxed) }
}

/// Something that is not `Sendable` for the compiler, and is handed over or guarded by a lock.
struct Handed<Value>: @unchecked Sendable {
    var value: Value
}
