# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""A test of the check itself: one error of its kind in each kind of file, every one of which has to be found."""

# Module, file, what stands there, what is put in its place, and a part of what a compiler has to say.
PLANTED = [
    ("shared Swift: a span that only newer systems have", "NetworkAddresses",
     "Sources/NetworkAddresses/IPPrefix.swift", "ContiguousArray(text.utf8)", "Array(text.utf8)",
     "only available in macOS 26"),
    ("Darwin's own file: an import less", "TunnelSystem", "Sources/TunnelSystem/SpawnPlatform+Darwin.swift",
     "    import MachO\n", "", "_NSGetExecutablePath"),
    ("Darwin's own file: an unsafe call that is not marked", "TunnelSystem",
     "Sources/TunnelSystem/Unix/UnixSocket+Darwin.swift", "guard unsafe getpeereid", "guard getpeereid", "unsafe"),
    ("Darwin's own file: a name of Linux", "TunnelSystem", "Sources/TunnelSystem/Unix/UnixSocket+Darwin.swift",
     "socket(AF_UNIX, SOCK_STREAM, 0)", "socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)", "SOCK_CLOEXEC"),
    ("the C library: a call that Darwin has not", "CCulvert", "Sources/CCulvert/culvert.c", '#include "culvert.h"',
     '#include "culvert.h"\n#include <sys/epoll.h>', "sys/epoll.h"),
    ("NetworkExtension: an override of another signature", "PacketTunnelApple",
     "Sources/PacketTunnelApple/Host/NetworkExtensionHost.swift", "with reason: NEProviderStopReason,",
     "with reason: NEVPNStatus,", "does not override"),
    ("NetworkExtension: a setting that is not there", "PacketTunnelApple",
     "Sources/PacketTunnelApple/Manager/OnDemandInterface+Mac.swift", "case .ethernet: .ethernet",
     "case .ethernet: .cellular", "cellular"),
    ("keychain: a class of item that is not there", "PacketTunnelApple",
     "Sources/PacketTunnelApple/Keychain/KeychainItems.swift", "kSecMatchLimitOne", "kSecMatchLimitTwo",
     "kSecMatchLimitTwo"),
    ("URLSession: a challenge answered with nothing", "TrustPinningFoundation",
     "Sources/TrustPinningFoundation/Darwin/ChallengeResponder+Darwin.swift", "URLCredential(trust: accepted)",
     "URLCredential(trust: nil)", "nil"),
    ("the example's views: a modifier that is not there", "AppleTunnelApp",
     "Examples/AppleTunnel/App/ImportView.swift", ".disabled(", ".disable(", "disable"),
    ("a test: a name that is not there", "TunnelSystemTests", "Tests/TunnelSystemTests/FileDescriptorTests.swift", "import Testing", "import Testings",
     "Testings"),
    ("a number of Darwin's, written down wrongly", "DarwinLayout", "Tests/Apple/DarwinLayout.c",
     "SAME(8, offsetof(struct in_pktinfo, ipi_addr));", "SAME(4, offsetof(struct in_pktinfo, ipi_addr));",
     "ipi_addr"),
]
