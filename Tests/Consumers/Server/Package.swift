// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// A server with a tunnel and pinned TLS on NIO.
// dev/check consumers says where Culvert is.
let package = Package(
    name: "Server",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(url: Context.environment["CULVERT_URL"] ?? "", exact: "0.1.0", traits: ["TrustPinningNIO"])
    ],
    targets: [
        .executableTarget(
            name: "Server",
            dependencies: [
                .product(name: "TrustPinningNIO", package: "culvert"),
                .product(name: "TrustPinning", package: "culvert"),
                .product(name: "WireGuardDevice", package: "culvert"),
            ],
            path: "Sources")
    ]
)
