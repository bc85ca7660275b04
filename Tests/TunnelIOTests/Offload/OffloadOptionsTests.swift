// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Offload switches")
struct OffloadOptionsTests {
    private var switchPaths: [(String, KeyPath<OffloadOptions, Bool>)] {
        [
            ("CULVERT_UDP_GSO", \.udpSegmentation), ("CULVERT_UDP_GRO", \.udpCoalescing),
            ("CULVERT_TUN_TSO", \.tunTCPSegmentation), ("CULVERT_TUN_USO", \.tunUDPSegmentation),
            ("CULVERT_TUN_TCP_GRO", \.tunTCPCoalescing), ("CULVERT_TUN_UDP_GRO", \.tunUDPCoalescing),
        ]
    }

    private func options(on release: String, _ variables: [String: String] = [:]) -> OffloadOptions {
        OffloadOptions(kernel: KernelRelease(release)) { variables[$0] }
    }

    @Test("Each switch turns off its own")
    func switches() {
        #expect(OffloadOptions(kernel: nil) { _ in "0" } == .none)
        for (name, path) in switchPaths {
            let options = options(on: "6.18.0", [name: "0"])
            for (other, otherPath) in switchPaths { #expect(options[keyPath: otherPath] == (other != name)) }
            #expect(!options[keyPath: path])
        }
        #expect(!OffloadOptions.none.wantsVirtioHeader)
    }

    @Test("A value other than 0 and 1 leaves a switch unchanged", arguments: ["", "2", "no", "off", "00"])
    func otherValues(value: String) {
        #expect(OffloadOptions(kernel: KernelRelease(6, 18)) { _ in value } == options(on: "6.18"))
    }

    @Test(
        "Kernels that lose joined datagrams are not asked to send any",
        arguments: [
            ("6.18.44-fc-v657", true), ("6.99.99", true), ("7.0.0", false), ("7.0", false), ("7", false),
            ("7.0.0-rc1", false), ("7.0.12-generic", false), ("7.1.0", false), ("7.1", false), ("7.1-rc3", false),
            ("7.1.4", false), ("7.1.4-200.fc43.x86_64", false), ("7.1.4+", false), ("7.1.5", true), ("7.1.10", true),
            ("7.1.40", true), ("7.2.0", true), ("7.10.0", true), ("8.0", true), ("70.1.2", true), ("4.19.0", true),
        ])
    func equalTails(release: String, isOn: Bool) {
        var expected = OffloadOptions(kernel: nil) { _ in "1" }
        expected.udpSegmentation = isOn
        // That is about something else.
        expected.udpCoalescing = !release.hasPrefix("4.")
        #expect(options(on: release) == expected)
        #expect(options(on: release, ["CULVERT_UDP_GSO": "1"]).udpSegmentation)
        #expect(!options(on: release, ["CULVERT_UDP_GSO": "0"]).udpSegmentation)
    }

    @Test(
        "Joined datagrams are received from Linux 5.12 on",
        arguments: [("5.11.22", false), ("5.4.0-200-generic", false), ("5.12.0", true), ("5.12", true), ("6.0", true)])
    func receiving(release: String, isOn: Bool) {
        #expect(options(on: release).udpCoalescing == isOn)
        #expect(options(on: release, ["CULVERT_UDP_GRO": "1"]).udpCoalescing)
    }

    @Test("Releases as kernels write them")
    func releases() {
        #expect(KernelRelease("6.8.0-45-generic") == KernelRelease(6, 8, 0))
        #expect(KernelRelease("5.15.167.4-microsoft-standard-WSL2") == KernelRelease(5, 15, 167))
        #expect(KernelRelease("4.4.302+") == KernelRelease(4, 4, 302))
        #expect(KernelRelease("6.12.0_rc3.1") == KernelRelease(6, 12, 0))
        #expect(KernelRelease("6-generic.9.9") == KernelRelease(6))
        #expect(KernelRelease("7.x.3") == KernelRelease(7))
        for text in ["", "linux", ".", "-1.2", "99999999999999999999.1"] { #expect(KernelRelease(text) == nil) }
        #expect(KernelRelease(5, 9) < KernelRelease(5, 10))
        #expect(KernelRelease(5, 99, 99) < KernelRelease(6))
    }

    @Test("An unknown kernel has no known defects")
    func unknownKernel() {
        #expect(OffloadOptions(kernel: nil) { _ in nil } == OffloadOptions(kernel: nil) { _ in "1" })
    }
}
