// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// MARK: - Settings on every Swift target

// CULVERT_WERROR=1 makes warnings errors, for our own targets only: CI sets it.
let warnings: [SwiftSetting] = Context.environment["CULVERT_WERROR"] == "1" ? [.treatAllWarnings(as: .error)] : []

// For tests that do nothing but call C; everything else has `settings`.
let basics: [SwiftSetting] =
    warnings + [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),  // SE-0335
        .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
        .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),  // SE-0461
    ]
let settings: [SwiftSetting] = basics + [.strictMemorySafety()]  // SE-0458

// MARK: - Traits

// What brings more packages is on a trait, named after the product that needs them: an app which names none resolves
// swift-crypto, swift-asn1 and swift-log. Products of those packages are conditional below, once each; a target that is
// built without its trait says so (PackageTrait.swift).
//
// A clone has all of them, so that plain `swift build` and `swift test` build everything. It is a dependency, and has what
// its user names, where SwiftPM reads this file out of a repository, which has the path `/`, or in its folder of checkouts.
let isDependency =
    Context.packageDirectory == "/" || Context.packageDirectory.split(separator: "/").dropLast().last == "checkouts"
let traits: Set<Trait> = [
    .default(enabledTraits: isDependency ? [] : ["Programs"]),
    .trait(name: "TrustPinning", description: "Certificate pinning: swift-certificates"),
    .trait(
        name: "TrustPinningNIO", description: "Pinned TLS on NIO, and an HTTPS client: swift-nio, swift-nio-ssl",
        enabledTraits: ["TrustPinning"]),
    .trait(
        name: "Gateway", description: "A WireGuard gateway with an HTTPS API: hummingbird, GRDB",
        enabledTraits: ["TrustPinningNIO"]),
    .trait(
        name: "Programs", description: "culvert and its programs: swift-argument-parser",
        enabledTraits: ["TrustPinningNIO", "Gateway"]),
]

// MARK: - Dependencies

let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let x509 = Target.Dependency.product(
    name: "X509", package: "swift-certificates", condition: .when(traits: ["TrustPinning"]))
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let nio: [Target.Dependency] = [
    ("NIOCore", "swift-nio"), ("NIOPosix", "swift-nio"), ("NIOHTTP1", "swift-nio"), ("NIOTLS", "swift-nio"),
    ("NIOConcurrencyHelpers", "swift-nio"), ("NIOSSL", "swift-nio-ssl"),
].map { .product(name: $0, package: $1, condition: .when(traits: ["TrustPinningNIO"])) }
let argumentParser = Target.Dependency.product(
    name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Programs"]))
let hummingbird: [Target.Dependency] = [
    ("Hummingbird", "hummingbird"), ("HummingbirdCore", "hummingbird"), ("HummingbirdTLS", "hummingbird"),
    ("HTTPTypes", "swift-http-types"),
    ("ServiceLifecycle", "swift-service-lifecycle"), ("Metrics", "swift-metrics"),
].map { .product(name: $0, package: $1, condition: .when(traits: ["Gateway"])) }
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift", condition: .when(traits: ["Gateway"]))

// MARK: - Parts of one platform

// Their products are there for everybody, so that one manifest of an app names them with a condition. Where the system
// that builds is another, they are empty modules. CULVERT_PLATFORM=linux builds those of Linux on a Mac, with an SDK for it;
// CULVERT_PLATFORM=macos evaluates this file on Linux as on a Mac (scripts/apple).
#if os(Linux)
    let buildsForLinux = Context.environment["CULVERT_PLATFORM"] != "macos"
    let buildsForApple = !buildsForLinux || Context.environment["CULVERT_STANDINS"] == "1"
#else
    let buildsForLinux = Context.environment["CULVERT_PLATFORM"] == "linux"
    let buildsForApple = !buildsForLinux
#endif

func part(_ name: String, isBuilt: Bool, dependencies: [Target.Dependency]) -> Target {
    isBuilt
        ? .target(name: name, dependencies: dependencies, exclude: ["Elsewhere"], swiftSettings: settings)
        : .target(name: name, path: "Sources/\(name)/Elsewhere")
}
let applePlatforms: [Platform] = [.macOS, .macCatalyst, .iOS, .tvOS, .watchOS, .visionOS]
let linuxHost = Target.Dependency.target(name: "PacketTunnelLinux", condition: .when(platforms: [.linux]))
let gateway = Target.Dependency.target(name: "Gateway", condition: .when(platforms: [.linux]))
let tunnelServer = Target.Dependency.target(name: "TunnelServer", condition: .when(platforms: [.linux]))

let package = Package(
    name: "culvert",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "NetworkAddresses", targets: ["NetworkAddresses"]),
        .library(name: "WireGuardCore", targets: ["WireGuardCore"]),
        .library(name: "TunnelIO", targets: ["TunnelIO"]),
        .library(name: "WireGuardDevice", targets: ["WireGuardDevice"]),
        .library(name: "PacketTunnel", targets: ["PacketTunnel"]),
        .library(name: "PacketTunnelLinux", targets: ["PacketTunnelLinux"]),
        .library(name: "PacketTunnelApple", targets: ["PacketTunnelApple"]),
        .library(name: "WireGuardTunnel", targets: ["WireGuardTunnel"]),
        .library(name: "CredentialTunnel", targets: ["CredentialTunnel"]),
        .library(name: "Provisioning", targets: ["Provisioning"]),
        .library(name: "PinnedProvisioning", targets: ["PinnedProvisioning"]),
        .library(name: "Gateway", targets: ["Gateway"]),
        .library(name: "TrustPinning", targets: ["TrustPinning"]),
        .library(name: "TrustPinningNIO", targets: ["TrustPinningNIO"]),
        .library(name: "TrustPinningFoundation", targets: ["TrustPinningFoundation"]),
        .library(name: "PacketTunnelTesting", targets: ["PacketTunnelTesting"]),
        .library(name: "culvert-c", type: .dynamic, targets: ["CulvertC"]),
        .library(name: "culvert-c-static", type: .static, targets: ["CulvertC"]),
        .executable(name: "culvert", targets: ["culvert"]),
        .executable(name: "culvert-wg", targets: ["culvert-wg"]),
        .executable(name: "culvert-pin", targets: ["culvert-pin"]),
        .executable(name: "culvert-enroll", targets: ["culvert-enroll"]),
    ],
    traits: traits,
    dependencies: [
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // MARK: - Libraries
        .target(name: "CTunnelSystem"),
        .target(
            name: "TunnelSystem", dependencies: ["NetworkAddresses", "CTunnelSystem"], swiftSettings: settings),
        .target(name: "NetworkAddresses", swiftSettings: settings),
        .target(name: "WireGuardCore", dependencies: ["NetworkAddresses", crypto], swiftSettings: settings),
        .target(
            name: "TunnelIO", dependencies: ["NetworkAddresses", "TunnelSystem", "CTunnelSystem"],
            swiftSettings: settings),
        .target(
            name: "WireGuardDevice",
            dependencies: ["NetworkAddresses", "WireGuardCore", "TunnelIO", "TunnelSystem", "CTunnelSystem"],
            swiftSettings: settings),
        .target(
            name: "PacketTunnel",
            dependencies: ["NetworkAddresses", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging],
            swiftSettings: settings),
        part(
            "PacketTunnelLinux", isBuilt: buildsForLinux,
            dependencies: ["NetworkAddresses", "PacketTunnel", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging]),
        part(
            "TunnelServer", isBuilt: buildsForLinux,
            dependencies: [
                "NetworkAddresses", "PacketTunnelLinux", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging,
            ]),
        part(
            "PacketTunnelApple", isBuilt: buildsForApple,
            dependencies: ["NetworkAddresses", "PacketTunnel", "TunnelIO", "TunnelSystem", logging]),
        .target(
            name: "WireGuardTunnel",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", "WireGuardDevice", "WireGuardCore", "TunnelIO", "TunnelSystem",
                "CTunnelSystem", logging,
            ],
            swiftSettings: settings),
        .target(
            name: "CredentialTunnel",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", "WireGuardCore", "TunnelIO", "TunnelSystem", "CTunnelSystem",
                logging,
            ],
            swiftSettings: settings),
        .target(
            name: "Provisioning",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", "TunnelSystem", "WireGuardCore", "WireGuardTunnel", crypto,
                logging,
            ],
            swiftSettings: settings),
        .target(
            name: "TrustPinning", dependencies: ["NetworkAddresses", "TunnelSystem", crypto, x509, asn1, logging],
            swiftSettings: settings),
        .target(
            name: "TrustPinningFoundation",
            dependencies: [
                "TrustPinning",
                // Apple's platforms have a URLSession that asks who the server is.
                .target(name: "TrustPinningNIO", condition: .when(platforms: [.linux])),
                .product(
                    name: "NIOHTTP1", package: "swift-nio",
                    condition: .when(platforms: [.linux], traits: ["TrustPinningNIO"])),
            ],
            swiftSettings: settings),
        .target(
            name: "TrustPinningNIO", dependencies: ["TrustPinning", "TunnelSystem", asn1] + nio, swiftSettings: settings
        ),
        .target(name: "PacketTunnelTesting", swiftSettings: settings),
        .target(
            name: "PinnedProvisioning",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", "Provisioning", "TrustPinning", logging,
                .target(name: "TrustPinningFoundation", condition: .when(platforms: applePlatforms)),
                .target(name: "TrustPinningNIO", condition: .when(platforms: [.linux])),
                .product(
                    name: "NIOHTTP1", package: "swift-nio",
                    condition: .when(platforms: [.linux], traits: ["TrustPinningNIO"])),
            ],
            swiftSettings: settings),
        // Part of the gateway's login tunnel. Apps do not need it.
        .target(name: "PasswordHashing", dependencies: [crypto, cryptoExtras], swiftSettings: settings),
        part(
            "Gateway", isBuilt: buildsForLinux,
            dependencies: [
                "NetworkAddresses", "TunnelSystem", "CTunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice",
                "PacketTunnel", "PacketTunnelLinux", "TunnelServer", "CredentialTunnel", "PasswordHashing",
                "Provisioning", "TrustPinning", crypto, cryptoExtras, x509, asn1, grdb, logging,
            ] + nio + hummingbird),

        // MARK: - For other languages
        .target(name: "CCulvert"),
        .target(
            name: "CulvertC",
            dependencies: [
                "NetworkAddresses", "CCulvert", "CTunnelSystem", "TunnelSystem", "WireGuardDevice", "WireGuardCore",
                "TunnelIO",
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "culvert-c-example", dependencies: ["CulvertC", "CCulvert"], path: "Examples/CTunnel"),
        .executableTarget(
            name: "linux-tunnel-example", dependencies: ["PacketTunnel", linuxHost, "WireGuardTunnel", logging],
            path: "Examples/LinuxTunnel", swiftSettings: settings),
        .executableTarget(
            name: "echo-tunnel-example",
            dependencies: ["NetworkAddresses", "PacketTunnel", linuxHost, "TunnelIO", logging],
            path: "Examples/EchoTunnel", exclude: ["Tests"], swiftSettings: settings),

        // MARK: - Programs
        .target(
            name: "CommandLineSupport", dependencies: ["TunnelSystem", "CTunnelSystem", argumentParser],
            swiftSettings: settings),
        .target(
            name: "DemoSupport",
            dependencies: [
                "CommandLineSupport", "NetworkAddresses", "CTunnelSystem", "TunnelSystem", "WireGuardCore", "TunnelIO",
                "WireGuardDevice", linuxHost, argumentParser,
            ],
            // In the program, so that an installed one has it.
            resources: [.embedInCode("namespaces.sh")], swiftSettings: settings),
        .executableTarget(
            name: "culvert",
            dependencies: [
                "NetworkAddresses", "CommandLineSupport", "DemoSupport", "CTunnelSystem", "TunnelSystem",
                "WireGuardCore", "TunnelIO",
                "WireGuardDevice",
                "PacketTunnel", linuxHost, "WireGuardTunnel", "CredentialTunnel", "Provisioning", argumentParser,
                logging,
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "culvert-wg",
            dependencies: ["CTunnelSystem", "TunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice"],
            swiftSettings: settings),
        .executableTarget(
            name: "culvert-pin",
            dependencies: [
                "CommandLineSupport", "TunnelSystem", "CTunnelSystem", "TrustPinning", "TrustPinningNIO",
                argumentParser, crypto,
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "culvert-enroll",
            dependencies: [
                "CommandLineSupport", "NetworkAddresses", "TunnelSystem", "CTunnelSystem", "PacketTunnel",
                "WireGuardCore", "Provisioning", "PinnedProvisioning", argumentParser, crypto, logging,
            ],
            swiftSettings: settings),

        // MARK: - Tests
        // Finds Tests/Fixtures.
        .target(
            name: "CompatibilityFixtures", path: "Tests/Support/CompatibilityFixtures", swiftSettings: settings),
        .target(
            name: "HostConformance",
            dependencies: ["NetworkAddresses", "PacketTunnel", "PacketTunnelTesting", "TunnelIO", "TunnelSystem"],
            path: "Tests/Support/HostConformance", swiftSettings: settings),
        .target(
            name: "WireGuardTesting",
            dependencies: [
                "NetworkAddresses", "WireGuardTunnel", "PacketTunnel", "WireGuardCore", "TunnelIO",
                "PacketTunnelTesting",
            ],
            path: "Tests/Support/WireGuardTesting", swiftSettings: settings),
        .testTarget(
            name: "NetworkAddressesTests", dependencies: ["NetworkAddresses", "PacketTunnelTesting"],
            swiftSettings: settings),
        .testTarget(
            name: "WireGuardCoreTests",
            dependencies: ["NetworkAddresses", "WireGuardCore", "PacketTunnelTesting", crypto],
            swiftSettings: settings),
        .testTarget(
            name: "CredentialTunnelTests",
            dependencies: [
                "NetworkAddresses", "CredentialTunnel", "PacketTunnel", "WireGuardCore", "TunnelIO", "TunnelSystem",
                "PacketTunnelTesting", "HostConformance", crypto, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "TunnelSystemTests",
            dependencies: ["NetworkAddresses", "TunnelSystem", "CTunnelSystem", "PacketTunnelTesting"],
            swiftSettings: settings),
        .testTarget(
            name: "TunnelIOTests",
            dependencies: ["NetworkAddresses", "TunnelIO", "TunnelSystem", "CTunnelSystem", "PacketTunnelTesting"],
            swiftSettings: settings),
        .testTarget(
            name: "WireGuardDeviceTests",
            dependencies: [
                "NetworkAddresses", "WireGuardDevice", "WireGuardCore", "TunnelIO", "TunnelSystem",
                "PacketTunnelTesting",
            ],
            swiftSettings: settings),
        .testTarget(
            name: "PacketTunnelTests",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", "TunnelIO", "TunnelSystem", "PacketTunnelTesting",
                "HostConformance", logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "WireGuardTunnelTests",
            dependencies: [
                "NetworkAddresses", "WireGuardTunnel", "PacketTunnel", "WireGuardDevice", "WireGuardCore", "TunnelIO",
                "PacketTunnelTesting", "HostConformance", "WireGuardTesting", logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ProvisioningTests",
            dependencies: [
                "CompatibilityFixtures",
                "NetworkAddresses", "Provisioning", "PacketTunnel", "WireGuardTunnel", "WireGuardDevice",
                "WireGuardCore", "TunnelIO", "PacketTunnelTesting", logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "CulvertEnrollTests",
            dependencies: [
                "culvert-enroll", "CommandLineSupport", "CommandLineTesting", "NetworkAddresses", "Provisioning",
                "PinnedProvisioning", "PacketTunnel", "TunnelSystem", "TunnelIO", "WireGuardCore", "WireGuardDevice",
                "WireGuardTunnel", "TrustPinning", "TrustPinningNIO", "PacketTunnelTesting", "TrustPinningTesting",
                "TrustPinningNIOTesting", argumentParser, logging,
            ] + nio,
            swiftSettings: settings),
        .testTarget(
            name: "CulvertTests",
            dependencies: [
                "CompatibilityFixtures",
                "culvert", "culvert-wg", "CommandLineSupport", "CommandLineTesting", "DemoSupport", "NetworkAddresses",
                "TunnelSystem",
                "WireGuardCore", "TunnelIO", "WireGuardDevice",
                "PacketTunnel", linuxHost, "WireGuardTunnel", "CredentialTunnel", "Provisioning", "PacketTunnelTesting",
                argumentParser, logging,
            ],
            swiftSettings: settings),
        .target(
            name: "CommandLineTesting",
            dependencies: ["TunnelSystem", "CommandLineSupport", "PacketTunnel", "PacketTunnelTesting"],
            path: "Tests/Support/CommandLineTesting", swiftSettings: settings),
        .testTarget(
            name: "CommandLineSupportTests",
            dependencies: ["TunnelSystem", "CommandLineSupport", "CommandLineTesting"],
            swiftSettings: settings),
        .testTarget(
            name: "CulvertPinTests",
            dependencies: [
                "CompatibilityFixtures",
                "culvert-pin", "CommandLineSupport", "CommandLineTesting", "TrustPinning", "TrustPinningNIO",
                "TrustPinningTesting", "TrustPinningNIOTesting", "TunnelSystem", argumentParser,
            ],
            swiftSettings: settings),
        .target(
            name: "TrustPinningTesting", dependencies: [crypto, cryptoExtras],
            path: "Tests/Support/TrustPinningTesting", swiftSettings: settings),
        .testTarget(
            name: "TrustPinningTests",
            dependencies: [
                "NetworkAddresses", "TrustPinning", "TrustPinningTesting", "PacketTunnelTesting", "TunnelSystem",
                crypto, x509, asn1, logging,
            ],
            // Swift 6.3.1 crashes when it optimizes them: "While splitting coroutine".
            swiftSettings: settings + [.unsafeFlags(["-Onone"], .when(configuration: .release))]),
        .target(
            name: "TrustPinningNIOTesting", dependencies: ["TrustPinningTesting"] + nio,
            path: "Tests/Support/TrustPinningNIOTesting", swiftSettings: settings),
        .testTarget(
            name: "TrustPinningNIOTests",
            dependencies: [
                "TrustPinningNIO", "TrustPinningFoundation", "TrustPinning", "TrustPinningTesting",
                "TrustPinningNIOTesting", "TunnelSystem",
            ] + nio,
            swiftSettings: settings),
        .testTarget(
            name: "CulvertCTests",
            dependencies: ["CulvertC", "CCulvert", "WireGuardCore", "TunnelIO", "TunnelSystem"],
            swiftSettings: basics),
        // What the documentation shows, compiled.
        .testTarget(
            name: "DocumentationTests",
            dependencies: [
                "NetworkAddresses", "TunnelIO", "WireGuardCore", "WireGuardDevice", "PacketTunnel", "TrustPinning",
                "TrustPinningFoundation", "TrustPinningNIO", "Provisioning", "PinnedProvisioning", "WireGuardTunnel",
                "PacketTunnelTesting", linuxHost, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "EchoTunnelTests",
            dependencies: ["echo-tunnel-example", "NetworkAddresses", "PacketTunnel", "TunnelIO"],
            path: "Examples/EchoTunnel/Tests", swiftSettings: settings),
        // The tutorial's steps: the files that it shows, compiled where they are.
        .target(
            name: "LoginTunnelTutorial",
            dependencies: ["NetworkAddresses", "CredentialTunnel", "PacketTunnel", "TunnelIO", crypto, logging],
            path: "Sources/CredentialTunnel/CredentialTunnel.docc/Resources", swiftSettings: settings),
        .testTarget(
            name: "LoginTunnelTutorialTests",
            dependencies: [
                "LoginTunnelTutorial", "NetworkAddresses", "CredentialTunnel", "PacketTunnel", "PacketTunnelTesting",
                "TunnelIO", crypto,
            ],
            swiftSettings: settings),
        .testTarget(name: "PacketTunnelTestingTests", dependencies: ["PacketTunnelTesting"], swiftSettings: settings),
        .testTarget(
            name: "PrivilegedTests",
            dependencies: [
                "CompatibilityFixtures",
                "NetworkAddresses", "CTunnelSystem", "TunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice",
                "PacketTunnel",
                linuxHost, tunnelServer,
                "WireGuardTunnel", "PacketTunnelTesting", "HostConformance", "CommandLineTesting", "culvert",
                "culvert-wg",
                "CredentialTunnel", gateway, "culvert-enroll",
                "Provisioning", "PasswordHashing",
                "culvert-c-example", "echo-tunnel-example",
                logging,
            ] + (buildsForLinux ? ["culvert-gateway"] : []),
            path: "Tests/Privileged",
            swiftSettings: settings),
    ]
)

if buildsForLinux {
    // A gateway runs on Linux alone, and no app names a program.
    package.products.append(.executable(name: "culvert-gateway", targets: ["culvert-gateway"]))
    package.targets.append(
        .executableTarget(
            name: "culvert-gateway",
            dependencies: [
                "CommandLineSupport", "DemoSupport", "NetworkAddresses", "TunnelSystem", "CTunnelSystem",
                "WireGuardCore", "TunnelIO", "PacketTunnel", "WireGuardDevice", "Provisioning", "PinnedProvisioning",
                "Gateway", "TunnelServer", "PacketTunnelLinux", argumentParser, crypto, logging,
            ],
            swiftSettings: settings))
    package.targets.append(
        .testTarget(
            name: "CulvertGatewayTests",
            dependencies: [
                "culvert-gateway", "Gateway", "CommandLineSupport", "CommandLineTesting", "DemoSupport",
                "NetworkAddresses", "PacketTunnelLinux", "PacketTunnel", "TunnelIO", "TunnelSystem",
                "PacketTunnelTesting", argumentParser, logging,
            ],
            swiftSettings: settings))
    package.targets.append(
        .testTarget(
            name: "PacketTunnelLinuxTests",
            dependencies: [
                "NetworkAddresses", "PacketTunnel", linuxHost, "TunnelIO", "TunnelSystem", "PacketTunnelTesting",
                "CommandLineTesting", logging,
            ],
            swiftSettings: settings))
    package.targets.append(
        .testTarget(
            name: "GatewayTests",
            dependencies: [
                "CompatibilityFixtures",
                "Gateway", "NetworkAddresses", "Provisioning", "PinnedProvisioning", "PacketTunnel",
                "PacketTunnelLinux",
                "WireGuardTunnel", "WireGuardDevice", "WireGuardCore", "TunnelIO", "TunnelSystem", "TunnelServer",
                "TrustPinning", "TrustPinningFoundation", "PacketTunnelTesting", "CredentialTunnel", "CTunnelSystem",
                "PasswordHashing", crypto, grdb, x509, asn1, logging,
            ] + nio + hummingbird,
            swiftSettings: settings))
    package.targets.append(
        .testTarget(
            name: "TunnelServerTests",
            dependencies: [
                "NetworkAddresses", "PacketTunnelLinux", "TunnelServer", "TunnelIO", "TunnelSystem",
                "PacketTunnelTesting",
            ],
            swiftSettings: settings))
}

// MARK: - The Apple code, against stand-ins

// With CULVERT_STANDINS=1 (scripts/standins) modules with the names of Apple's frameworks join the build, and
// `#if canImport(NetworkExtension)` and its like turn true. Only what they touch is built then: programs and other
// packages might find them as well.
if Context.environment["CULVERT_STANDINS"] == "1" {
    let standIns = ["NetworkExtension", "Network", "Security", "os"]
    let libraries = [
        "CTunnelSystem", "NetworkAddresses", "TunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice",
        "PacketTunnel", "PacketTunnelLinux", "PacketTunnelApple", "WireGuardTunnel", "CredentialTunnel", "Provisioning",
        "PacketTunnelTesting",
        "HostConformance", "WireGuardTesting", "TrustPinning",
        "TrustPinningTesting",
        "TrustPinningTests", "TrustPinningFoundation",
    ]
    let clients = ["PacketTunnelApple", "TrustPinning", "TrustPinningTests", "TrustPinningFoundation"]
    package.products = []
    package.targets.removeAll { !libraries.contains($0.name) }
    for target in package.targets where target.name == "TrustPinningFoundation" {
        target.dependencies = ["TrustPinning"]
    }
    for target in package.targets where clients.contains(target.name) {
        target.dependencies += standIns.map { .byName(name: $0) }
    }
    // swift-certificates asks for Security too, and wants all of it: it is built before there is any.
    let earlier: [String: [Target.Dependency]] = ["NetworkExtension": ["Network"], "Security": [x509]]
    package.targets += standIns.map { name in
        .target(
            name: name, dependencies: earlier[name] ?? [], path: "Tests/StandIns/\(name)",
            swiftSettings: [.swiftLanguageMode(.v6)])
    }
    package.targets.append(
        .target(
            name: "StandInVerifier", dependencies: ["Security", x509, asn1], path: "Tests/StandIns/StandInVerifier",
            swiftSettings: [.swiftLanguageMode(.v6)]))
    for target in package.targets where target.name == "TrustPinningTests" {
        target.dependencies.append("StandInVerifier")
    }
    // The example's extension and what its app does, without the app's views.
    for part in ["Extension", "Model"] {
        package.targets.append(
            .target(
                name: "AppleTunnel\(part)",
                dependencies: ["PacketTunnel", "PacketTunnelApple", "WireGuardTunnel", "CredentialTunnel", logging]
                    + (part == "Model"
                        ? ["NetworkAddresses", "TrustPinning", "TrustPinningFoundation", "WireGuardCore"] : [])
                    + standIns.map { .byName(name: $0) },
                path: "Examples/AppleTunnel/\(part)",
                exclude: part == "Extension"
                    ? ["Info.plist", "LoginInfo.plist", "AppleTunnelExtension.entitlements"] : [],
                swiftSettings: settings))
    }
    let used: [Target.Dependency] =
        [
            "NetworkAddresses", "PacketTunnel", "PacketTunnelApple", "WireGuardTunnel", "WireGuardDevice",
            "CredentialTunnel", "Provisioning",
            "WireGuardCore",
            "TunnelIO",
            "TunnelSystem", "PacketTunnelTesting", "HostConformance", "WireGuardTesting", "AppleTunnelExtension",
            "AppleTunnelModel", "TrustPinning", "TrustPinningFoundation", "TrustPinningTesting", "StandInVerifier",
            logging,
        ] + standIns.map { .byName(name: $0) }
    package.targets.append(.testTarget(name: "AppleTests", dependencies: used, swiftSettings: settings))
    // With links to the namespaces and processes of the other privileged tests, which say their module's name.
    package.targets.append(
        .testTarget(
            name: "PrivilegedTests", dependencies: used + ["PacketTunnelLinux"], path: "Tests/PrivilegedApple",
            swiftSettings: settings))
}

// MARK: - Measuring and fuzzing

// With CULVERT_BENCH=1 (scripts/bench) the benchmarks join the build, with the same flags as everything else: one release
// build serves programs and figures. They are no part of the ordinary build, and nobody who uses the package sees them.
// CULVERT_BENCH=tunnels leaves out pinning's, for which NIO, X.509 and another BoringSSL would be built: CI's sample.
let benchmarks = Context.environment["CULVERT_BENCH"]
if benchmarks == "1" || benchmarks == "tunnels", Context.environment["CULVERT_STANDINS"] != "1" {
    let measuresTrust = benchmarks == "1"
    // Tunnels, namespaces and stages without their kernel are for Linux; the rest runs anywhere.
    #if os(Linux)
        let excluded = ["Darwin"]
        let stageCalls: [Target] = [.target(name: "CStageCalls", path: "Benchmarks/CStageCalls")]
        let wrapped = ["read", "readv", "write", "writev", "recvmmsg", "sendmmsg"].map { "--wrap=\($0)" }
        // Valgrind takes offence at the debug information of new compilers; names of functions stay.
        let flags = (wrapped + ["--strip-debug"]).flatMap { ["-Xlinker", $0] }
        let linking: [LinkerSetting] = [.unsafeFlags(flags)]
    #else
        let excluded = ["Linux"]
        let stageCalls: [Target] = []
        let linking: [LinkerSetting] = []
    #endif
    package.targets += stageCalls
    package.targets.append(
        .executableTarget(
            name: "culvert-bench",
            dependencies: [
                "NetworkAddresses", "WireGuardCore", "TunnelIO", "WireGuardDevice", "CredentialTunnel", "PacketTunnel",
                "PacketTunnelTesting", crypto,
            ] + (measuresTrust ? ["TrustPinning", "TrustPinningNIO", x509, asn1] + nio : [])
                + stageCalls.map { .byName(name: $0.name) },
            path: "Benchmarks/culvert-bench", exclude: excluded + (measuresTrust ? [] : ["Trust"]),
            swiftSettings: settings + (measuresTrust ? [.define("MEASURES_TRUST")] : []), linkerSettings: linking))
}

// What fuzzers check is code of the tests, which run it on the seeds. With CULVERT_FUZZ=1 (scripts/fuzz) it is a program,
// whose entry point is libFuzzer's.
let fuzzed: [Target.Dependency] = [
    "NetworkAddresses", "WireGuardCore", "TunnelIO", "CredentialTunnel", "TrustPinning", "Provisioning",
    "PacketTunnelTesting", x509, asn1,
]
if Context.environment["CULVERT_FUZZ"] == "1" {
    package.targets.removeAll { $0.type == .test }
    package.targets.append(
        .executableTarget(
            name: "culvert-fuzz", dependencies: fuzzed, path: "Fuzz/Sources", exclude: ["Tests"],
            swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
} else if Context.environment["CULVERT_STANDINS"] != "1" {
    package.targets.append(
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed, path: "Fuzz/Sources", exclude: ["Program"],
            swiftSettings: settings))
}
