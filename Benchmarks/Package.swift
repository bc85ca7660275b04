// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// Benchmarks, apart from the library so that nobody who uses it builds them. Figures are for release builds only:
//
//     scripts/bench                    the tables of culvert-bench
//     scripts/allocations              allocations per packet
//     scripts/bench-tunnel             whole tunnels under iperf3, beside wireguard-go

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "culvert-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "culvert", path: ".."),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    ],
    targets: [
        .executableTarget(
            name: "culvert-bench",
            dependencies: [
                .product(name: "WireGuardCore", package: "culvert"),
                .product(name: "WireGuardDevice", package: "culvert"),
                .product(name: "TunnelIO", package: "culvert"),
                .product(name: "PacketTunnelTesting", package: "culvert"),
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            swiftSettings: settings)
    ]
)
