// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization
import Testing
import TunnelIO

@testable import PacketTunnelLinux

@Suite("Changes of the network", .timeLimit(.minutes(1)))
struct NetworkWatchTests {
    /// The time of the first check of resolv.conf.
    private final class FirstCheck: Sendable {
        let time = Mutex<Int64?>(nil)
    }

    /// A watch of a resolv.conf in an empty folder. It runs on the test's thread.
    private final class Scene {
        let folder: JournalFolder
        let loop: EventLoop
        let watch: NetworkWatch
        let file: String
        private let checked = FirstCheck()

        init(_ prepare: (_ path: String) throws -> Void) throws {
            folder = try JournalFolder()
            try folder.directory.prepare()
            let path = ResolverControl.target(folder.directory.path) ?? folder.directory.path
            for name in ["etc", "static", "run"] {
                try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
            }
            try prepare(path)
            file = "\(path)/etc/resolv.conf"
            loop = try EventLoop()
            watch = try NetworkWatch(tunnel: "cvt0", folder: folder.directory, resolver: file, loop: loop)
            try watch.start { [checked, weak loop] parts, _ in
                guard parts.contains(.resolver) else { return nil }
                checked.time.withLock { $0 = $0 ?? LaneClock.now() }
                loop?.stop()
                return nil
            }
        }

        /// Runs until resolv.conf is checked, or for ten seconds.
        /// - Returns: The time from `begun` to the check, in nanoseconds; `nil` without a check.
        func timeToCheck(since begun: Int64) throws -> Int64? {
            let loop = loop
            loop.set(loop.makeTimer { loop.stop() }, deadline: begun + 10 * LaneClock.nanosecondsPerSecond)
            try loop.run()
            return checked.time.withLock { $0 }.map { $0 - begun }
        }
    }

    private static func write(_ text: String, _ path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test("A replaced resolv.conf is checked after the settling delay")
    func settles() throws {
        let scene = try Scene { try Self.write("1", "\($0)/etc/resolv.conf") }
        let begun = LaneClock.now()
        try Self.write("2", scene.file + ".new")
        try FileManager.default.removeItem(atPath: scene.file)
        try FileManager.default.moveItem(atPath: scene.file + ".new", toPath: scene.file)
        let time = try #require(try scene.timeToCheck(since: begun))
        #expect(time >= 20_000_000, "\(time) ns")
    }

    @Test("A change of the second link on the way to resolv.conf is found, although inotify does not report it")
    func middleLink() throws {
        var root = ""
        let scene = try Scene { path in
            root = path
            for name in ["a", "b"] { try Self.write(name, "\(path)/run/\(name)") }
            let files = FileManager.default
            try files.createSymbolicLink(atPath: "\(path)/static/link", withDestinationPath: "\(path)/run/a")
            try files.createSymbolicLink(
                atPath: "\(path)/etc/resolv.conf", withDestinationPath: "\(path)/static/link")
        }
        let begun = LaneClock.now()
        try FileManager.default.removeItem(atPath: "\(root)/static/link")
        try FileManager.default.createSymbolicLink(atPath: "\(root)/static/link", withDestinationPath: "\(root)/run/b")
        #expect(try scene.timeToCheck(since: begun) != nil)
    }
}
