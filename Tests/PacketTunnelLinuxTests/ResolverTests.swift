// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting
import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("Name servers")
struct ResolverTests {
    private func plan(_ settings: DNSSettings, _ manager: ResolverManager = .resolved) -> ResolverPlan {
        ResolverPlan(interface: LinuxSamples.interface, manager: manager, settings: settings)
    }

    @Test("Every name goes to the tunnel's servers, through resolvectl")
    func resolvedAll() throws {
        #expect(
            plan(try LinuxSamples.dns()).resolvectlRuns == [
                ["dns", "cvt0", "10.9.0.1"], ["domain", "cvt0", "example.org", "~."],
                ["default-route", "cvt0", "true"],
            ])
    }

    @Test("Some domains' names do", arguments: [true, false])
    func resolvedSplit(_ searches: Bool) throws {
        var settings = try LinuxSamples.dns()
        settings.matchDomains = ["corp.example.", "example.org"]
        settings.searchesMatchDomains = searches
        #expect(
            plan(settings).resolvectlRuns == [
                ["dns", "cvt0", "10.9.0.1"],
                ["domain", "cvt0", "example.org", searches ? "corp.example" : "~corp.example"],
                ["default-route", "cvt0", "false"],
            ])
    }

    @Test("Domains without servers complete names and route nothing")
    func resolvedSearchOnly() {
        #expect(
            plan(DNSSettings(servers: [], searchDomains: ["a.example"])).resolvectlRuns == [
                ["dns", "cvt0", ""], ["domain", "cvt0", "a.example"], ["default-route", "cvt0", "false"],
            ])
    }

    @Test("resolvconf reads lines of resolv.conf")
    func resolvconf() throws {
        var settings = try LinuxSamples.dns()
        settings.servers.append(try IPAddress("fd00::53"))
        settings.searchDomains.append("b.example.")
        #expect(
            plan(settings, .openresolv).resolvConf
                == "nameserver 10.9.0.1\nnameserver fd00::53\nsearch example.org b.example\n")
    }

    @Test("resolvconf cannot ask some servers for some names")
    func resolvconfSplit() throws {
        var settings = try LinuxSamples.dns()
        settings.matchDomains = ["corp.example"]
        #expect(throws: LinuxNetworkError.self) {
            try ResolverControl().record(for: plan(settings, .openresolv))
        }
    }

    /// A folder with programs that are scripts.
    private final class Programs {
        let folder: URL

        init(_ scripts: [String: String] = [:]) throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for (name, script) in scripts { try write(script, name) }
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        func write(_ text: String, _ name: String) throws { try PlacedProgram.write(text, to: path(name)) }

        func read(_ name: String) throws -> String {
            try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
        }

        func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

        var control: ResolverControl {
            ResolverControl(
                file: path("resolv.conf"), folders: [folder.path], resolvedSocket: path("socket"),
                interfaceOrder: path("interface-order"))
        }
    }

    private static let openresolv = "#!/bin/sh\n[ \"$1\" = --version ] && echo openresolv 3.12.0\n"
    private static let debian = "#!/bin/sh\necho usage >&2; exit 99\n"

    @Test(
        "The order in which a manager is looked for",
        arguments: [
            (["resolvectl", "socket"], "127.0.0.53", ResolverManager.resolved as ResolverManager?),
            (["resolvectl", "socket", "resolvconf"], "127.0.0.53", .resolved),
            (["resolvectl", "socket", "resolvconf"], "192.0.2.1", .openresolv),
            (["resolvectl", "socket"], "192.0.2.1", .resolved), (["resolvectl"], "127.0.0.53", nil),
            (["resolvectl", "resolvconf"], "127.0.0.53", .openresolv), ([], "192.0.2.1", nil),
        ])
    func detection(_ files: [String], _ server: String, _ expected: ResolverManager?) throws {
        let programs = try Programs(["resolv.conf": "# nameserver 1.1.1.1\nnameserver \(server)\n"])
        for file in files { try programs.write(Self.openresolv, file) }
        #expect(try programs.control.manager() == expected)
    }

    @Test("Debian's resolvconf, and a resolvconf that is resolvectl by another name")
    func otherResolvconf() throws {
        let programs = try Programs(["resolvconf": Self.debian, "resolv.conf": ""])
        #expect(try programs.control.manager() == .debianResolvconf)
        let others = try Programs(["resolvectl": Self.openresolv, "resolv.conf": "nameserver 192.0.2.1\n"])
        try FileManager.default.createSymbolicLink(
            atPath: others.path("resolvconf"), withDestinationPath: others.path("resolvectl"))
        #expect(try others.control.manager() == nil, "it does not run")
        try others.write("", "socket")
        #expect(try others.control.manager() == .resolved)
    }

    @Test("Before a tunnel is up, the servers of a host with resolvconf are read without starting it")
    func outsideWithoutProgram() throws {
        let log = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/log\"\n"
        let programs = try Programs(["resolvconf": log, "resolv.conf": "nameserver 192.0.2.1\n"])
        #expect(try programs.control.outsideServers(tunnel: "cvt0", record: nil) == [.v4(192, 0, 2, 1)])
        #expect(throws: (any Error).self) { try programs.read("log") }
        // systemd-resolved reports its servers.
        try programs.write("#!/bin/sh\necho 'Link 2 (eth0): 192.0.2.9'\n", "resolvectl")
        try programs.write("", "socket")
        try programs.write("nameserver 127.0.0.53\n", "resolv.conf")
        #expect(try programs.control.outsideServers(tunnel: "cvt0", record: nil) == [.v4(192, 0, 2, 9)])
        #expect(throws: (any Error).self) { try programs.read("log") }
    }

    @Test("Debian's resolvconf gets the tunnel under the first kind of interface that it orders")
    func debianOrder() throws {
        let log = "echo \"$@\" >> \"$(dirname \"$0\")/log\"; cat >> \"$(dirname \"$0\")/log\"\n"
        let programs = try Programs([
            "resolvconf": "#!/bin/sh\n" + log, "resolv.conf": "",
            "interface-order": "# order\nlo.inet*\ntun*\neth*\n",
        ])
        let plan = plan(try LinuxSamples.dns(), .debianResolvconf)
        let record = try programs.control.record(for: plan)
        #expect(record.label == "tun.cvt0")
        try programs.control.set(plan, record)
        try programs.control.clear(record)
        #expect(
            try programs.read("log")
                == "-a tun.cvt0\nnameserver 10.9.0.1\nsearch example.org\n-d tun.cvt0\n")
    }

    @Test("A file that resolvconf overwrote is restored byte for byte when it lists no other interface")
    func restored() throws {
        let script = """
            #!/bin/sh
            cd "$(dirname "$0")"
            case $1 in
            -i) [ ! -f records ] || cat records ;;
            -a) echo "$2" > records; cat > resolv.conf ;;
            -d) rm -f records; echo '# nothing' > resolv.conf ;;
            esac
            """
        let before = "nameserver 192.0.2.53\noptions edns0"
        let programs = try Programs(["resolvconf": script, "resolv.conf": before])
        let plan = plan(try LinuxSamples.dns(), .openresolv)
        let record = try programs.control.record(for: plan)
        try programs.control.set(plan, record)
        #expect(try programs.read("resolv.conf") == plan.resolvConf)
        try programs.control.clear(record)
        #expect(try programs.read("resolv.conf") == before)
        // Again, as after a crash while it was undone.
        try programs.control.clear(record)
        #expect(try programs.read("resolv.conf") == before)
    }

    @Test("A record that resolvconf did not remove is an error, so that it is tried again")
    func notForgotten() throws {
        let script = """
            #!/bin/sh
            case $1 in
            -i) echo 'cvt0 eth0' ;;
            -d) echo 'timed out waiting for lock from pid 7' >&2; exit 1 ;;
            esac
            """
        let programs = try Programs(["resolvconf": script, "resolv.conf": "# Generated by resolvconf\n"])
        let record = try programs.control.record(for: plan(try LinuxSamples.dns(), .openresolv))
        let failure = LinuxNetworkError(
            .programFailed(
                path: programs.path("resolvconf"), status: 1, output: "timed out waiting for lock from pid 7\n"))
        #expect(throws: failure) { try programs.control.clear(record) }
    }

    /// A resolvconf that knows of `eth0`, and of the tunnel until there is a file `forgotten`.
    private func halfDone(_ forgetting: String, update: String = Self.update) throws -> Programs {
        let script = """
            #!/bin/sh
            cd "$(dirname "$0")"
            case $1 in
            -i) [ -f forgotten ] && echo eth0 || echo cvt0 eth0 ;;
            -d) \(forgetting) ;;
            -u) \(update) ;;
            esac
            """
        return try Programs([
            "resolvconf": script, "resolv.conf": "# Generated by resolvconf\nnameserver 10.9.0.1\n",
        ])
    }

    private static let update = "echo 'nameserver 192.0.2.1' > resolv.conf"

    @Test(
        "A file is brought up to date where resolvconf was killed after it forgot the tunnel, now or before",
        arguments: [true, false])
    func forgottenHalfway(_ isBefore: Bool) throws {
        let programs = try halfDone(isBefore ? ":" : "touch forgotten; kill -9 $$")
        let record = try programs.control.record(for: plan(try LinuxSamples.dns(), .openresolv))
        if isBefore { try programs.write("", "forgotten") }
        try programs.control.clear(record)
        #expect(try programs.read("resolv.conf") == "nameserver 192.0.2.1\n")
        // resolvconf must not update a file that an administrator wrote.
        try programs.write("nameserver 192.0.2.99\n", "resolv.conf")
        try programs.control.clear(record)
        #expect(try programs.read("resolv.conf") == "nameserver 192.0.2.99\n")
    }

    @Test("An update fails while the file names the tunnel's servers, whatever its status reports")
    func updateFails() throws {
        for (update, isError) in [
            ("kill -9 $$", true), ("exit 1", true), (Self.update + "; exit 2", false), (Self.update, false),
        ] {
            let programs = try halfDone("touch forgotten; exit 1", update: update)
            let record = try programs.control.record(for: plan(try LinuxSamples.dns(), .openresolv))
            var failure: LinuxNetworkError?
            do { try programs.control.clear(record) } catch { failure = error }
            #expect((failure != nil) == isError, "\(update): \(String(describing: failure))")
        }
    }

    /// A resolvconf that makes `run` from its records, as Debian's does; `resolv.conf` is a link to it.
    private static let linking = """
        #!/bin/sh
        cd "$(dirname "$0")"
        update() {
            { echo '# Dynamic resolv.conf(5) file for glibc resolver(3) generated by resolvconf(8)'; cat records; } > run
        }
        case $1 in
        -a) { cat; echo nameserver 192.0.2.1; } > records; update ;;
        -d) echo nameserver 192.0.2.1 > records; update ;;
        -u) update ;;
        *) exit 99 ;;
        esac
        """

    @Test(
        "A link to resolvconf's file is restored, and after the tunnel the file that replaced it",
        arguments: [true, false])
    func replacedLink(_ isLink: Bool) throws {
        let programs = try Programs(["resolvconf": Self.linking, "records": "nameserver 192.0.2.1", "run": ""])
        let file = programs.path("resolv.conf")
        try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "run")
        let plan = plan(try LinuxSamples.dns(), .debianResolvconf)
        var record = try programs.control.record(for: plan)
        try programs.control.set(plan, record)
        let ours = try ResolverFile(at: file)
        #expect(ours.link == "run" && ResolverControl.isInEffect(ours, plan, record))
        // By a rename, or by a write through the link.
        let theirs = "nameserver 192.0.2.99\n"
        if !isLink { try FileManager.default.removeItem(atPath: file) }
        try programs.write(theirs, "resolv.conf")
        let replaced = try ResolverFile(at: file)
        #expect(!ResolverControl.isInEffect(replaced, plan, record))
        let restoration = try programs.control.restore(plan, record, isFileGood: false)
        #expect(restoration == ResolverControl.Restoration(file: ours, isMade: true))
        // Only a file in place of the link is kept.
        if !isLink { record.replaced = replaced }
        for _ in 0..<2 {
            try programs.control.clear(record)
            let after = try ResolverFile(at: file)
            #expect(isLink ? after.link == "run" && after.servers == ["192.0.2.1"] : after == replaced)
        }
    }

    @Test("A link in place of openresolv's file is replaced by a file, and restored after the tunnel")
    func foreignLink() throws {
        let script = """
            #!/bin/sh
            cd "$(dirname "$0")"
            update() { { echo '# Generated by resolvconf'; cat records; } > resolv.conf; }
            case $1 in
            -i) [ ! -f records ] || echo cvt0 ;;
            -a) cat > records; update ;;
            -d) rm -f records; echo '# Generated by resolvconf' > resolv.conf ;;
            -u) update ;;
            esac
            """
        let programs = try Programs(["resolvconf": script, "resolv.conf": "nameserver 192.0.2.53\n"])
        let file = programs.path("resolv.conf")
        let plan = plan(try LinuxSamples.dns(), .openresolv)
        var record = try programs.control.record(for: plan)
        try programs.control.set(plan, record)
        try programs.write("nameserver 192.0.2.99\n", "network-manager")
        try FileManager.default.removeItem(atPath: file)
        try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "network-manager")
        record.replaced = try ResolverFile(at: file)
        let restoration = try programs.control.restore(plan, record, isFileGood: false)
        #expect(restoration.file.link == nil && ResolverControl.isInEffect(restoration.file, plan, record))
        #expect(
            try programs.read("network-manager") == "nameserver 192.0.2.99\n", "nothing is written through the link")
        #expect(FileStatus(of: file)?.mode == 0o644)
        try programs.control.clear(record)
        #expect(try ResolverFile(at: file) == record.replaced)
        #expect(try !programs.read("network-manager").contains("Generated"))
    }

    @Test("A named pipe in place of the file is read without waiting")
    func namedPipe() throws {
        let programs = try Programs()
        #expect(unsafe mkfifo(programs.path("resolv.conf"), 0o600) == 0)
        #expect(try ResolverFile(at: programs.path("resolv.conf")).servers.isEmpty)
    }

    @Test("An unchanged file needs no update")
    func neverSet() throws {
        let script = "#!/bin/sh\n[ \"$1\" != -i ] || exit 0\n[ \"$1\" = -d ] || touch \"$(dirname \"$0\")/$1\"\n"
        let programs = try Programs(["resolvconf": script, "resolv.conf": "before"])
        let record = try programs.control.record(for: plan(try LinuxSamples.dns(), .openresolv))
        try programs.control.clear(record)
        #expect(throws: (any Error).self) { try programs.read("-u") }
    }

    @Test("A truncated list is not an empty list")
    func brokenList() throws {
        let script = "#!/bin/sh\n[ \"$1\" != -i ] || kill -9 $$\n"
        let programs = try Programs(["resolvconf": script, "resolv.conf": "before"])
        let record = ResolverRecord(
            manager: .openresolv, interface: LinuxSamples.interface, label: "cvt0",
            before: Data("other".utf8).base64EncodedString())
        #expect(throws: LinuxNetworkError.self) { try programs.control.clear(record) }
        #expect(try programs.read("resolv.conf") == "before")
    }

    @Test("Programs have a time limit, a distinct error for each end, and their output is kept")
    func program() throws {
        let programs = try Programs([
            "good": "#!/bin/sh\ncat; echo \"$LC_ALL $HOME\"; pwd >/dev/null\n",
            "bad": "#!/bin/sh\necho broken >&2; exit 3\n", "killed": "#!/bin/sh\nkill -9 $$\n",
            "hanging": "#!/bin/sh\nwhile :; do :; done\n", "leaving": "#!/bin/sh\nsleep 2 &\necho left\n",
        ])
        func program(_ name: String) throws -> SystemProgram {
            try #require(SystemProgram(name, folders: [programs.folder.path]))
        }
        let long = String(repeating: "x", count: 300_000)
        #expect(try program("good").check([], input: "in ") == "in C \n")
        #expect(try program("good").run([], input: long).output.count == 65_536)
        let failure = LinuxNetworkError(.programFailed(path: programs.path("bad"), status: 3, output: "broken"))
        #expect(throws: failure) { try program("bad").check([]) }
        #expect(try program("killed").run([]).status == 137)
        #expect(try program("leaving").run([]) == SystemProgram.Outcome(status: 0, output: "left\n"))
        let timeout = LinuxNetworkError(.programTimedOut(path: programs.path("hanging"), seconds: 1))
        #expect(throws: timeout) { try program("hanging").run([], seconds: 1) }
        #expect(SystemProgram("missing", folders: [programs.folder.path]) == nil)
        #expect(throws: LinuxNetworkError(.programMissing(name: "no-such-program"))) {
            try SystemProgram.required("no-such-program")
        }
    }
}
