// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// An app with a tunnel that servers give out. It names no trait.
// dev/check consumers says where Culvert is.
let package = Package(
    name: "TunnelApp",
    platforms: [.macOS(.v15)],
    dependencies: [.package(url: Context.environment["CULVERT_URL"] ?? "", exact: "0.1.0")],
    targets: [
        .executableTarget(
            name: "TunnelApp",
            dependencies: [
                .product(name: "PacketTunnel", package: "culvert"),
                .product(name: "Provisioning", package: "culvert"),
                .product(name: "WireGuardCore", package: "culvert"),
                .product(name: "WireGuardDevice", package: "culvert"),
                .product(name: "WireGuardTunnel", package: "culvert"),
            ],
            path: "Sources")
    ]
)
