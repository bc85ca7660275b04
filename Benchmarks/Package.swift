// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// Benchmarks, apart from the library so that nobody who uses it builds them. Figures are for release builds only:
//
//     scripts/bench                    everything, with a report under docs/performance
//     scripts/bench-tunnel             whole tunnels under iperf3, beside wireguard-go and the C baseline
//     scripts/allocations              allocations per packet

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

// Tunnels, namespaces and stages without their kernel are for Linux; the rest runs anywhere.
#if os(Linux)
    let excluded = ["Darwin"]
    let systemTargets: [Target] = [.target(name: "CStageCalls")]
    let systemDependencies: [Target.Dependency] = ["CStageCalls"]
    let wrapped = ["read", "readv", "write", "writev", "recvmmsg", "sendmmsg"]
    // Valgrind takes offence at the debug information of new compilers; names of functions stay.
    let flags = wrapped.map { "--wrap=\($0)" } + ["--strip-debug"]
    let linking: [LinkerSetting] = [.unsafeFlags(flags.flatMap { ["-Xlinker", $0] })]
#else
    let excluded = ["Linux"]
    let systemTargets: [Target] = []
    let systemDependencies: [Target.Dependency] = []
    let linking: [LinkerSetting] = []
#endif

let package = Package(
    name: "culvert-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "culvert", path: ".."),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    ],
    targets: [
        .executableTarget(
            name: "culvert-bench",
            dependencies: [
                .product(name: "WireGuardCore", package: "culvert"),
                .product(name: "WireGuardDevice", package: "culvert"),
                .product(name: "TunnelIO", package: "culvert"),
                .product(name: "PacketTunnel", package: "culvert"),
                .product(name: "PacketTunnelTesting", package: "culvert"),
                .product(name: "TrustPinning", package: "culvert"),
                .product(name: "TrustPinningNIO", package: "culvert"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "Crypto", package: "swift-crypto"),
            ] + systemDependencies,
            exclude: excluded,
            swiftSettings: settings,
            linkerSettings: linking)
    ] + systemTargets
)
