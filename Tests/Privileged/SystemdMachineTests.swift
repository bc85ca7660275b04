// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// The units under Debian's systemd, run by `dev/machine systemd`.
    @Suite(
        "Under Debian's systemd, in a virtual machine", .serialized, .enabled(if: SystemdMachineScene.folder != nil),
        .timeLimit(.minutes(15)))
    struct SystemdMachineTests {
        private static func report(_ scene: SystemdMachineScene) -> String {
            let script =
                "systemctl status --no-pager -l -n 40 \(scene.unit) || true; culvert status \(scene.name) || true"
            return (try? scene.machine.attempt(script).output) ?? "the machine does not answer"
        }

        @Test("A unit starts, reloads in the same process, and stops; then everything is restored, name servers too")
        func wholeLife() throws {
            let scene = try SystemdMachineScene("life")
            let machine = scene.machine
            try scene.writeFile()
            try machine.shell("systemctl start \(scene.unit)", deadline: .seconds(120))
            try scene.waitForAnswers()
            let status = try machine.shell("systemctl status --no-pager \(scene.unit)")
            #expect(status.contains("active (running)"), "\(status)")
            try eventually("systemd is told that it is connected", within: .seconds(60)) {
                try scene.property("StatusText") == "connected"
            }
            #expect(try machine.shell("ip route get 203.0.113.7").contains(" dev life "))
            #expect(try machine.shell("resolvectl dns life").contains(SystemdMachineScene.server))
            #expect(try machine.shell("resolvectl domain life").contains("corp.example"))
            let queries = try machine.namespace.start(
                "tcpdump", "-l", "-n", "--immediate-mode", "-i", scene.link, "udp dst port 53")
            try queries.waitForOutput(containing: "listening on")
            let lookup = try machine.start("getent hosts private.corp.example || true")
            try queries.waitForOutput(containing: "private.corp.example", deadline: .seconds(60))
            lookup.kill()

            let process = try scene.property("MainPID")
            try scene.writeFile(dns: "10.99.0.53", allowed: "10.99.0.0/24, 203.0.113.0/24, fd99::/64, 2001:db8:7::/48")
            try machine.shell("systemctl reload \(scene.unit)", deadline: .seconds(120))
            #expect(try machine.shell("resolvectl dns life").contains("10.99.0.53"))
            #expect(try machine.shell("ip route get 203.0.113.7").contains(" dev life "))
            #expect(try machine.shell("ip route get 198.51.100.1").contains(" dev data "))
            try scene.waitForAnswers()
            try machine.shell("echo nonsense > \(scene.file)")
            #expect(try machine.attempt("systemctl reload \(scene.unit)", deadline: .seconds(120)).status != 0)
            try scene.waitForAnswers()
            #expect(try scene.property("ActiveState") == "active")
            #expect(try scene.property("MainPID") == process)

            try machine.shell("systemctl stop \(scene.unit)", deadline: .seconds(120))
            #expect(try scene.property("ActiveState") == "inactive", "\(Self.report(scene))")
            #expect(try scene.network == scene.before)
            #expect(try !machine.shell("resolvectl").contains("10.99.0."))
            #expect(try machine.shell("culvert status") == "no tunnel is up\n")
        }

        @Test("A file that cannot be used fails its unit, and is not tried again")
        func unusable() throws {
            let scene = try SystemdMachineScene("bad")
            try scene.writeFile(allowed: "nonsense")
            #expect(try scene.machine.attempt("systemctl start \(scene.unit)", deadline: .seconds(120)).status != 0)
            #expect(try scene.property("ActiveState") == "failed")
            #expect(try scene.property("ExecMainStatus") == "2")
            #expect(try scene.property("NRestarts") == "0")
            #expect(try scene.network == scene.before)
        }

        @Test(
            "Changes that networkd undoes at its restart are restored, and no packet bypasses an enforced tunnel meanwhile",
            arguments: ["route-based", "enforced"])
        func networkd(_ policy: String) throws {
            let scene = try SystemdMachineScene("nwd")
            try scene.addProfile(policy: policy)
            try scene.machine.shell("systemctl start \(scene.unit)", deadline: .seconds(120))
            try scene.waitForAnswers()
            let network = try scene.network
            let capture = try scene.capture()
            if policy == "enforced" { try scene.machine.shell("systemctl start early-traffic") }
            for action in ["systemctl restart systemd-networkd", "networkctl reload && networkctl reconfigure data"] {
                try scene.machine.shell(action, deadline: .seconds(120))
                try scene.waitForAnswers()
                try eventually("after \(action) the network is as it was: \(network)", within: .seconds(120)) {
                    try scene.network == network
                }
            }
            try scene.waitForAnswers()
            #expect(try scene.machine.shell("ip route get 203.0.113.7").contains(" dev nwd "))
            print(
                "\(policy): repairs:",
                try scene.machine.shell("culvert status nwd --json | tr ',' '\\n' | grep -i repair"))
            let leaks = try capture.end()
            if policy == "enforced" { #expect(leaks.isEmpty, "\(leaks.count), the first \(leaks.prefix(5))") }
            try scene.machine.shell("systemctl stop early-traffic \(scene.unit)", deadline: .seconds(120))
            try eventually("all is as it was", within: .seconds(60)) { try scene.network == scene.before }
        }

        @Test(
            "A killed unit starts again by itself, and no packet bypasses it meanwhile",
            arguments: [
                "kill -9 $(systemctl show --value -p MainPID culvert@kill)", "systemctl kill -s KILL culvert@kill",
            ])
        func killed(_ kill: String) throws {
            let scene = try SystemdMachineScene("kill")
            try scene.addProfile(policy: "enforced")
            try scene.machine.shell("systemctl start \(scene.unit)", deadline: .seconds(120))
            try scene.waitForAnswers()
            let network = try scene.network
            let process = try scene.property("MainPID")
            let capture = try scene.capture()
            try scene.machine.shell("systemctl start early-traffic")
            let killedAt = ContinuousClock.now
            try scene.machine.shell(kill)
            try eventually("the unit has started again", within: .seconds(120)) {
                try scene.property("NRestarts") == "1" && scene.property("ActiveState") == "active"
            }
            try scene.waitForAnswers()
            print("carries again \(ContinuousClock.now - killedAt) after: \(kill)")
            #expect(try scene.property("MainPID") != process)
            try eventually("the network is as it was", within: .seconds(60)) { try scene.network == network }
            let leaks = try capture.end()
            #expect(leaks.isEmpty, "\(leaks.count), the first \(leaks.prefix(5))")
            // Show that the capture would have recorded a leak.
            let after = try scene.capture()
            try scene.machine.shell("systemctl stop \(scene.unit)", deadline: .seconds(120))
            try eventually("traffic goes out again", within: .seconds(60)) { after.soFar.count > 4 }
            try scene.machine.shell("systemctl stop early-traffic")
            try eventually("all is as it was", within: .seconds(60)) { try scene.network == scene.before }
        }

        @Test("A guarded machine that crashed lets nothing out from its start on, until the policy is released")
        func boot() throws {
            let scene = try SystemdMachineScene("boot")
            let machine = scene.machine
            try scene.addProfile(policy: "everything")
            /// Crashes and reboots the machine with its units. Returns the packets that were sent unencrypted until the
            /// units carried traffic.
            func crash() throws -> [String] {
                let capture = try scene.capture()
                let boot = try machine.shell("sync; cat /proc/sys/kernel/random/boot_id")
                    .trimmingCharacters(in: .whitespacesAndNewlines)
                let end = try machine.start("echo b > /proc/sysrq-trigger")
                defer { end.kill() }
                let began = ContinuousClock.now
                try machine.waitForShell(
                    "test $(cat /proc/sys/kernel/random/boot_id) != \(boot)", deadline: .seconds(300))
                try eventually("the tunnel is up", within: .seconds(180)) {
                    try scene.property("StatusText") == "connected"
                }
                print("up \(ContinuousClock.now - began) after the crash")
                try scene.waitForAnswers()
                return try capture.end()
            }
            try machine.shell("systemctl enable early-traffic \(scene.unit)")
            #expect(try !crash().isEmpty, "without the guard something leaves: else the capture proves nothing")
            try machine.shell(
                "systemctl stop early-traffic; systemctl enable culvert-guard@boot; systemctl start culvert-guard@boot")
            let leaks = try crash()
            #expect(leaks.isEmpty, "\(leaks.count), the first \(leaks.prefix(5))")
            #expect(
                try machine.shell("systemctl is-active early-traffic culvert-guard@boot culvert@boot")
                    == "active\nactive\nactive\n")
            let order = try machine.shell("systemd-analyze critical-chain --no-pager culvert@boot.service || true")
            print(order)

            // Stopping both units releases nothing. nftables flushes everything, and the guard is then loaded again.
            let held = try scene.capture()
            try machine.shell("systemctl stop \(scene.unit) culvert-guard@boot", deadline: .seconds(120))
            #expect(try machine.attempt("ping -n -q -c 2 -W 5 203.0.113.7").status != 0)
            #expect(try held.end().isEmpty)
            try machine.shell("systemctl start culvert-guard@boot")
            let tables = try machine.shell("nft list tables")
            try machine.shell("systemctl restart nftables", deadline: .seconds(120))
            try eventually("the guard's table is there again", within: .seconds(60)) {
                try machine.shell("nft list tables") == tables
            }
            #expect(try machine.attempt("ping -n -q -c 2 -W 5 203.0.113.7").status != 0)
            try machine.shell(
                "systemctl disable culvert-guard@boot culvert@boot; systemctl stop culvert-guard@boot; culvert guard boot --release"
            )
            try scene.waitForAnswers()
            try machine.shell("systemctl stop early-traffic")
            #expect(try machine.shell("nft list tables | grep -c culvert || true") == "0\n")
        }
    }
#endif
