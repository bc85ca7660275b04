// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// An app that pins its servers, and judges their chains itself.
// dev/check consumers says where Culvert is.
let package = Package(
    name: "PinningApp",
    platforms: [.macOS(.v15)],
    dependencies: [.package(url: Context.environment["CULVERT_URL"] ?? "", exact: "0.1.0", traits: ["TrustPinning"])],
    targets: [
        .executableTarget(
            name: "PinningApp",
            dependencies: [
                .product(name: "TrustPinning", package: "culvert")
            ],
            path: "Sources")
    ]
)
