// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Foundation
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("resolv.conf that cannot be read, or is covered")
struct ResolverFileTests {
    @Test("A link to itself and a file of megabytes have no bytes, and a start is refused with the remedy")
    func unreadable() throws {
        let folder = try JournalFolder()
        try folder.directory.prepare()
        let (loop, large) = (folder.directory.path + "/loop", folder.directory.path + "/large")
        try FileManager.default.createSymbolicLink(atPath: loop, withDestinationPath: "loop")
        try Data(repeating: 0x23, count: 3 << 20).write(to: URL(fileURLWithPath: large))
        #expect(try ResolverFile(at: loop) == ResolverFile(link: "loop", bytes: nil))
        #expect(try ResolverFile(at: large) == ResolverFile(bytes: nil))
        let plan = ResolverPlan(
            interface: LinuxSamples.interface, manager: .resolved, settings: try LinuxSamples.dns())
        for (path, words) in [(loop, "leads to itself"), (large, "at most 65536 bytes")] {
            var control = ResolverControl()
            control.file = path
            let error = #expect(throws: LinuxNetworkError.self) { try control.record(for: plan) }
            #expect(error?.description.contains(words) == true && error?.description.contains(path) == true)
        }
        // Both are replaced.
        for path in [loop, large] { try ResolverFile(bytes: Array("nameserver 10.9.0.1\n".utf8)).restore(at: path) }
        for path in [loop, large] { #expect(try ResolverFile(at: path).servers == ["10.9.0.1"]) }
    }

    @Test("A file that was mounted over resolv.conf since the start is not written, and the error names umount")
    func mountedSince() throws {
        var control = ResolverControl()
        // A mount that every system has.
        control.file = "/proc"
        let plan = ResolverPlan(
            interface: LinuxSamples.interface, manager: .openresolv, settings: try LinuxSamples.dns())
        var record = ResolverRecord(
            manager: .openresolv, interface: LinuxSamples.interface, label: LinuxSamples.interface.name, before: nil)
        record.isMounted = false
        let failures = [
            #expect(throws: LinuxNetworkError.self) { try control.set(plan, record) },
            #expect(throws: LinuxNetworkError.self) { try control.clear(record) },
        ]
        for error in failures {
            #expect(error?.code == .kernelSetting(path: "/proc") && error?.errno == EBUSY)
            #expect(error?.description.contains("'umount /proc'") == true)
        }
    }

    @Test("The last mount over a file is found by its mount point, and mounts elsewhere are not")
    func mounts() {
        let text = """
            24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
            31 24 0:26 / /etc rw - tmpfs tmpfs rw
            40 24 8:1 /hosts /etc/resolv.conf rw - ext4 /dev/sda1 rw
            57 40 8:1 /etc/other.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
            58 24 8:1 /x /etc/resolv.conf.d rw - ext4 /dev/sda1 rw
            """
        #expect(MountedFile.mount(over: "/etc/resolv.conf", in: text) == 57)
        #expect(MountedFile.mount(over: "/etc/hosts", in: text) == nil)
        #expect(MountedFile.mount(over: "/etc/resolv.conf", in: "") == nil)
    }
}
