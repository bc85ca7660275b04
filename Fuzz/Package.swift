// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// Fuzz targets for libFuzzer, which brings `main`. Build and run them with scripts/fuzz, or:
//
//     swift build -c release --sanitize fuzzer -Xswiftc -enable-testing
//     .build/release/fuzz-uapi -max_total_time=60 corpus/fuzz-uapi seeds/fuzz-uapi

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let core = Target.Dependency.product(name: "WireGuardCore", package: "culvert")
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let x509 = Target.Dependency.product(name: "X509", package: "swift-certificates")
let testing = Target.Dependency.product(name: "PacketTunnelTesting", package: "culvert")

/// No file is the main one: the entry point is libFuzzer's.
let library = settings + [.unsafeFlags(["-parse-as-library"])]

func fuzzer(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .executableTarget(
        name: name, dependencies: ["FuzzSupport", core, testing] + dependencies, swiftSettings: library)
}

let package = Package(
    name: "culvert-fuzz",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "culvert", path: ".."),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
    ],
    targets: [
        .target(name: "FuzzSupport", dependencies: [core, testing], swiftSettings: settings),
        fuzzer("fuzz-datagram"),
        fuzzer("fuzz-uapi"),
        fuzzer("fuzz-wgquick"),
        fuzzer("fuzz-tun"),
        fuzzer("fuzz-offload", [.product(name: "TunnelIO", package: "culvert")]),
        fuzzer("fuzz-trust", [.product(name: "TrustPinning", package: "culvert"), x509, asn1]),
    ]
)
