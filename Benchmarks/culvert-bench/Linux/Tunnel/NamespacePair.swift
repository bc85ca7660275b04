// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Two network namespaces with a wire between them.
final class NamespacePair {
    /// The names of both.
    let names: [String]
    /// A name for one TUN device in each, which no other pair has.
    let interfaces: [String]

    /// The name of the wire's device, in both.
    static let wire = "under"
    /// The addresses of the wire's two ends.
    static let outside = ["192.0.2.1", "192.0.2.2"]
    /// The addresses of the tunnel's two ends.
    static let inside = ["10.7.0.1", "10.7.0.2"]

    /// - Parameter tag: makes names that no other pair of this process has; a few letters.
    init(tag: String) {
        names = ["a", "b"].map { "cb\(getpid())\(tag)\($0)" }
        interfaces = ["a", "b"].map { "cb\(getpid() % 1_000_000)\(tag)\($0)" }
    }

    func make() throws {
        for name in names {
            try Shell.run(["ip", "netns", "add", name])
            try Shell.run(["ip", "-n", name, "link", "set", "lo", "up"])
        }
        try Shell.run([
            "ip", "link", "add", "name", Self.wire, "netns", names[0], "type", "veth", "peer", "name", Self.wire,
            "netns",
            names[1],
        ])
        for side in 0...1 {
            try ip(side, "address", "add", "\(Self.outside[side])/24", "dev", Self.wire)
            try ip(side, "link", "set", Self.wire, "up")
        }
    }

    /// The prefix of a command that runs in one of the namespaces.
    func enter(_ side: Int) -> [String] { ["ip", "netns", "exec", names[side]] }

    /// Runs `ip` in one of the namespaces.
    @discardableResult
    func ip(_ side: Int, _ words: String...) throws -> String {
        try Shell.run(["ip", "-n", names[side]] + words)
    }

    /// Gives the TUN device of one side its address, and brings it up.
    func bringUp(_ side: Int) throws {
        try ip(side, "address", "add", "\(Self.inside[side])/24", "dev", interfaces[side])
        try ip(side, "link", "set", interfaces[side], "mtu", "1420", "up")
    }

    /// Removes the namespaces that exist.
    func remove() {
        for name in names { _ = try? Shell.run(["ip", "netns", "delete", name]) }
    }
}
