// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A test of the check itself: one error of its kind in each kind of file, every one of which has to be found.
struct Planted {
    var title, module, file, old, new: String
    /// A part of the expected compiler message.
    var said: String

    init(_ title: String, _ module: String, _ file: String, _ old: String, _ new: String, finds said: String) {
        (self.title, self.module, self.file, self.old, self.new, self.said) = (title, module, file, old, new, said)
    }

    static let all = [
        Planted(
            "shared Swift: a span that only newer systems have", "NetworkAddresses",
            "Sources/NetworkAddresses/IPPrefix.swift", "ContiguousArray(text.utf8)", "Array(text.utf8)",
            finds: "only available in macOS 26"),
        Planted(
            "Darwin's own file: an import less", "TunnelSystem", "Sources/TunnelSystem/SpawnPlatform+Darwin.swift",
            "    import MachO\n", "", finds: "_NSGetExecutablePath"),
        Planted(
            "Darwin's own file: an unsafe call that is not marked", "TunnelSystem",
            "Sources/TunnelSystem/Unix/UnixSocket+Darwin.swift", "guard unsafe getpeereid", "guard getpeereid",
            finds: "unsafe"),
        Planted(
            "Darwin's own file: a name of Linux", "TunnelSystem", "Sources/TunnelSystem/Unix/UnixSocket+Darwin.swift",
            "socket(AF_UNIX, SOCK_STREAM, 0)", "socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)",
            finds: "SOCK_CLOEXEC"),
        Planted(
            "the C library: a call that Darwin has not", "CCulvert", "Sources/CCulvert/culvert.c",
            "#include \"culvert.h\"", "#include \"culvert.h\"\n#include <sys/epoll.h>", finds: "sys/epoll.h"),
        Planted(
            "an example in C: a header of Linux", "culvert-c-example", "Examples/CTunnel/main.c",
            "#include <errno.h>", "#include <errno.h>\n#include <linux/if_tun.h>", finds: "linux/if_tun.h"),
        Planted(
            "an example: an import of Linux's host", "linux-tunnel-example", "Examples/LinuxTunnel/LinuxTunnel.swift",
            "#if os(Linux)", "import LinuxHost\n\n#if os(Linux)", finds: "LinuxHost"),
        Planted(
            "NetworkExtension: an override of another signature", "PacketTunnelApple",
            "Sources/PacketTunnelApple/Host/NetworkExtensionHost.swift", "with reason: NEProviderStopReason,",
            "with reason: NEVPNStatus,", finds: "does not override"),
        Planted(
            "NetworkExtension: a setting that is not there", "PacketTunnelApple",
            "Sources/PacketTunnelApple/Manager/OnDemandInterface+Mac.swift", "case .ethernet: .ethernet",
            "case .ethernet: .cellular", finds: "cellular"),
        Planted(
            "keychain: a class of item that is not there", "PacketTunnelApple",
            "Sources/PacketTunnelApple/Keychain/KeychainItems.swift", "kSecMatchLimitOne", "kSecMatchLimitTwo",
            finds: "kSecMatchLimitTwo"),
        Planted(
            "URLSession: a challenge answered with nothing", "TrustPinningFoundation",
            "Sources/TrustPinningFoundation/Darwin/ChallengeResponder+Darwin.swift", "URLCredential(trust: accepted)",
            "URLCredential(trust: nil)", finds: "nil"),
        Planted(
            "the example's views: a modifier that is not there", "AppleTunnelApp",
            "Examples/AppleTunnel/App/ImportView.swift", ".disabled(", ".disable(", finds: "disable"),
        Planted(
            "a test: a name that is not there", "TunnelSystemTests",
            "Tests/TunnelSystemTests/FileDescriptorTests.swift",
            "import Testing", "import Testings", finds: "Testings"),
        Planted(
            "a number of Darwin's, written down wrongly", "DarwinLayout", "dev/apple/DarwinLayout.c",
            "SAME(8, offsetof(struct in_pktinfo, ipi_addr));", "SAME(4, offsetof(struct in_pktinfo, ipi_addr));",
            finds: "ipi_addr"),
    ]

    /// Compiles each module with its error, and returns how many were missed.
    static func missed(by check: Check) async throws -> Int {
        let folder = "\(build)/planted"
        var missed = 0
        for (number, planted) in all.enumerated() {
            let path = "\(root)/\(planted.file)"
            let text = try read(path)
            guard let module = check.modules[planted.module], let place = text.range(of: planted.old) else {
                throw Failed("\(planted.file) has no `\(planted.old)` any more: mend dev/apple/Planted.swift")
            }
            let copy = "\(folder)/\(number)-\(path.lastPart)"
            try write(text.replacingCharacters(in: place, with: planted.new), to: copy)
            let problems = try await check.problems(of: module, replacing: [path: copy], into: folder)
            let found = problems.filter { $0.contains(planted.said) }
            say(
                "\(check.system.name.padded(8)) planted: \(planted.title): \(found.isEmpty ? "MISSED" : "found")",
                Array((found.isEmpty ? problems : found).prefix(1)))
            missed += found.isEmpty ? 1 : 0
        }
        return missed
    }
}
