// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PackageDescription

// MARK: - Settings on every Swift target

// CULVERT_WERROR=1 makes warnings errors, for our own targets only: CI sets it.
let warnings: [SwiftSetting] = Context.environment["CULVERT_WERROR"] == "1" ? [.treatAllWarnings(as: .error)] : []

let basics: [SwiftSetting] =  // For tests that do nothing but call C; everything else has `settings`.
    warnings + [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),  // SE-0335
        .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
        .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),  // SE-0461
    ]
let settings: [SwiftSetting] = basics + [.strictMemorySafety()]  // SE-0458

// MARK: - Traits

// A trait brings the packages of the product with its name; a target without its trait does not compile (PackageTrait.swift). A
// clone has all traits. A dependency has those that its user names: its manifest is read with the path `/`, or in `checkouts`.
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
    ("HTTPTypes", "swift-http-types"), ("ServiceLifecycle", "swift-service-lifecycle"), ("Metrics", "swift-metrics"),
].map { .product(name: $0, package: $1, condition: .when(traits: ["Gateway"])) }
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift", condition: .when(traits: ["Gateway"]))
let http1OnLinux = Target.Dependency.product(
    name: "NIOHTTP1", package: "swift-nio", condition: .when(platforms: [.linux], traits: ["TrustPinningNIO"]))
let pinningFoundation = Target.Dependency.target(
    name: "TrustPinningFoundation",
    condition: .when(platforms: [.macOS, .macCatalyst, .iOS, .tvOS, .watchOS, .visionOS]))
func onLinux(_ name: String) -> Target.Dependency { .target(name: name, condition: .when(platforms: [.linux])) }
let linuxHost = onLinux("PacketTunnelLinux")

// MARK: - Parts of one platform

// Each product exists on every system, so that an app's manifest can name it with a condition; elsewhere its module is empty.
// CULVERT_PLATFORM=linux builds those of Linux on a Mac, with an SDK; =macos evaluates this file on Linux as on a Mac.
#if os(Linux)
    let buildsForLinux = Context.environment["CULVERT_PLATFORM"] != "macos"
    let buildsForApple = !buildsForLinux || Context.environment["CULVERT_STANDINS"] == "1"
#else
    let buildsForLinux = Context.environment["CULVERT_PLATFORM"] == "linux"
    let buildsForApple = !buildsForLinux
#endif
let linuxLibraries = ["PacketTunnelLinux", "TunnelServer", "Gateway"]
let appleLibraries = ["PacketTunnelApple", "ProvisioningApple"]
let emptyModules = (buildsForLinux ? [] : linuxLibraries) + (buildsForApple ? [] : appleLibraries)
// No app names these: other systems lack them.
let onlyOnLinux = [
    "culvert-gateway", "CulvertGatewayTests", "GatewayTests", "PacketTunnelLinuxTests", "TunnelServerTests",
]

// MARK: - Tables of targets

/// The names of targets, each with its dependencies. The build refuses imports of other modules.
typealias Table = KeyValuePairs<String, [Target.Dependency]>

// Dependencies that several targets share.
let system: [Target.Dependency] = ["NetworkAddresses", "TunnelSystem", "CTunnelSystem"]
let engine = system + ["WireGuardCore", "TunnelIO", "WireGuardDevice"]
let packetTests: [Target.Dependency] = ["NetworkAddresses", "TunnelSystem", "TunnelIO", "PacketTunnelTesting"]
let tunnelTests = packetTests + ["PacketTunnel", logging]
let wireGuardTests = tunnelTests + ["WireGuardCore", "WireGuardDevice", "WireGuardTunnel"]
let commandTests: [Target.Dependency] = ["CommandLineSupport", "CommandLineTesting", argumentParser]
let requests: [Target.Dependency] = ["NetworkAddresses", "PacketTunnel", "Provisioning", "TrustPinning", logging]

// Libraries that apps and servers import: each is a product too.
let libraries: Table = [
    "NetworkAddresses": [],
    "WireGuardCore": ["NetworkAddresses", crypto],
    "TunnelIO": ["NetworkAddresses", "TunnelSystem", "CTunnelSystem"],
    "WireGuardDevice": ["NetworkAddresses", "WireGuardCore", "TunnelIO", "TunnelSystem", "CTunnelSystem"],
    "PacketTunnel": ["NetworkAddresses", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging],
    "PacketTunnelLinux": ["NetworkAddresses", "PacketTunnel", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging],
    "PacketTunnelApple": ["NetworkAddresses", "PacketTunnel", "TunnelIO", "TunnelSystem", logging],
    "WireGuardTunnel": engine + ["PacketTunnel", logging],
    "CredentialTunnel": system + ["PacketTunnel", "WireGuardCore", "TunnelIO", logging],
    "Provisioning": [
        "NetworkAddresses", "PacketTunnel", "TunnelSystem", "WireGuardCore", "WireGuardTunnel", crypto, logging,
    ],
    "TrustPinning": ["NetworkAddresses", "TunnelSystem", crypto, x509, asn1, logging],
    "TrustPinningNIO": ["TrustPinning", "TunnelSystem", asn1] + nio,
    // On Apple's platforms URLSession asks its delegate about the server's certificate; on Linux it does not.
    "TrustPinningFoundation": ["TrustPinning", onLinux("TrustPinningNIO"), http1OnLinux],
    "PinnedProvisioning": requests + [pinningFoundation, onLinux("TrustPinningNIO"), http1OnLinux],
    "ProvisioningApple": ["PacketTunnelApple", "Provisioning", "PinnedProvisioning"],
    "Gateway": [
        "NetworkAddresses", "TunnelSystem", "CTunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice",
        "PacketTunnel", "PacketTunnelLinux", "TunnelServer", "CredentialTunnel", "PasswordHashing", "Provisioning",
        "TrustPinning", crypto, cryptoExtras, x509, asn1, grdb, logging,
    ] + nio + hummingbird,
    "PacketTunnelTesting": [],
]
let internalLibraries: Table = [  // Only targets of this package import them.
    "TunnelSystem": ["NetworkAddresses", "CTunnelSystem"],
    "TunnelServer": ["NetworkAddresses", "PacketTunnelLinux", "TunnelIO", "TunnelSystem", "CTunnelSystem", logging],
    "PasswordHashing": [crypto, cryptoExtras],
    "CulvertC": engine + ["CCulvert"],
    "CommandLineSupport": ["TunnelSystem", "CTunnelSystem", argumentParser],
    "DemoSupport": engine + ["CommandLineSupport", linuxHost, argumentParser],
    "LoginTunnelTutorial": [  // The files that the tutorial shows, compiled in place.
        "NetworkAddresses", "CredentialTunnel", "PacketTunnel", "PacketTunnelApple", "TunnelIO", crypto, logging,
    ],
]
let programs: Table = [
    "culvert": engine + [
        "CommandLineSupport", "DemoSupport", "PacketTunnel", linuxHost, "WireGuardTunnel", "CredentialTunnel",
        "Provisioning", argumentParser, logging,
    ],
    "culvert-wg": ["CTunnelSystem", "TunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice"],
    "culvert-pin": [
        "CommandLineSupport", "TunnelSystem", "CTunnelSystem", "TrustPinning", "TrustPinningNIO", argumentParser,
        crypto,
    ],
    "culvert-enroll": system + [
        "CommandLineSupport", "PacketTunnel", "WireGuardCore", "Provisioning", "PinnedProvisioning", argumentParser,
        crypto, logging,
    ],
    "culvert-gateway": engine + [
        "CommandLineSupport", "DemoSupport", "PacketTunnel", "PacketTunnelLinux", "TunnelServer", "Gateway",
        "Provisioning", "PinnedProvisioning", argumentParser, crypto, logging,
    ],
]
let examples: Table = [
    "linux-tunnel-example": ["PacketTunnel", linuxHost, "WireGuardTunnel", logging],
    "echo-tunnel-example": ["NetworkAddresses", "PacketTunnel", linuxHost, "TunnelIO", logging],
]

let testSupport: Table = [  // Each in Tests/Support/NAME.
    "CompatibilityFixtures": [],  // Finds Tests/Fixtures.
    "CommandLineTesting": ["TunnelSystem", "CommandLineSupport", "PacketTunnel", "PacketTunnelTesting"],
    "HostConformance": ["NetworkAddresses", "PacketTunnel", "PacketTunnelTesting", "TunnelIO", "TunnelSystem"],
    "WireGuardTesting": [
        "NetworkAddresses", "WireGuardTunnel", "PacketTunnel", "WireGuardCore", "TunnelIO", "PacketTunnelTesting",
    ],
    "TrustPinningTesting": [crypto, cryptoExtras],
    "TrustPinningNIOTesting": ["TrustPinningTesting"] + nio,
]

let tests: Table = [
    "NetworkAddressesTests": ["NetworkAddresses", "PacketTunnelTesting"],
    "TunnelSystemTests": ["NetworkAddresses", "TunnelSystem", "CTunnelSystem", "PacketTunnelTesting"],
    "WireGuardCoreTests": ["NetworkAddresses", "WireGuardCore", "CTunnelSystem", "PacketTunnelTesting", crypto],
    "TunnelIOTests": packetTests + ["CTunnelSystem"],
    "WireGuardDeviceTests": packetTests + ["WireGuardDevice", "WireGuardCore"],
    "PacketTunnelTests": tunnelTests + ["HostConformance"],
    "PacketTunnelTestingTests": ["PacketTunnelTesting"],
    "WireGuardTunnelTests": wireGuardTests + ["HostConformance", "WireGuardTesting"],
    "CredentialTunnelTests": tunnelTests + ["CredentialTunnel", "WireGuardCore", "HostConformance", crypto],
    "ProvisioningTests": wireGuardTests + ["Provisioning", "CompatibilityFixtures"],
    "TrustPinningTests": [
        "NetworkAddresses", "TrustPinning", "TrustPinningTesting", "PacketTunnelTesting", "TunnelSystem", crypto, x509,
        asn1, logging,
    ],
    "TrustPinningNIOTests": [
        "TrustPinningNIO", "TrustPinningFoundation", "TrustPinning", "TrustPinningTesting", "TrustPinningNIOTesting",
        "TunnelSystem",
    ] + nio,
    "CommandLineSupportTests": ["TunnelSystem", "CommandLineSupport", "CommandLineTesting"],
    "CulvertTests": wireGuardTests + commandTests + [
        "culvert", "culvert-wg", "DemoSupport", linuxHost, "CredentialTunnel", "Provisioning", "CompatibilityFixtures",
    ],
    "CulvertPinTests": commandTests + [
        "culvert-pin", "TrustPinning", "TrustPinningNIO", "TrustPinningTesting", "TrustPinningNIOTesting",
        "TunnelSystem", "CompatibilityFixtures",
    ],
    "CulvertEnrollTests": wireGuardTests + commandTests + nio + [
        "culvert-enroll", "Provisioning", "PinnedProvisioning", "TrustPinning", "TrustPinningNIO",
        "TrustPinningTesting", "TrustPinningNIOTesting",
    ],
    "CulvertCTests": ["CulvertC", "CCulvert", "WireGuardCore", "TunnelIO", "TunnelSystem"],
    "EchoTunnelTests": ["echo-tunnel-example", "NetworkAddresses", "PacketTunnel", "TunnelIO"],
    "DocumentationTests": wireGuardTests + [  // The samples of the documentation, compiled.
        linuxHost, "TrustPinning", "TrustPinningFoundation", "TrustPinningNIO", "Provisioning", "PinnedProvisioning",
    ],
    "LoginTunnelTutorialTests": packetTests + ["LoginTunnelTutorial", "CredentialTunnel", "PacketTunnel", crypto],
    "PacketTunnelLinuxTests": tunnelTests + [linuxHost, "CommandLineTesting"],
    "TunnelServerTests": packetTests + ["PacketTunnelLinux", "TunnelServer"],
    "GatewayTests": wireGuardTests + nio + hummingbird + [
        "Gateway", "CTunnelSystem", "PacketTunnelLinux", "TunnelServer", "CredentialTunnel", "PasswordHashing",
        "Provisioning", "PinnedProvisioning", "TrustPinning", "TrustPinningFoundation", "CompatibilityFixtures",
        crypto, grdb, x509, asn1,
    ],
    "CulvertGatewayTests": tunnelTests + commandTests + [
        "culvert-gateway", "DemoSupport", "Gateway", "PacketTunnelLinux",
    ],
    "FuzzTests": engine + ["PacketTunnelTesting", "CredentialTunnel", "TrustPinning", "Provisioning", x509, asn1],
    "PrivilegedTests": wireGuardTests + [  // They need a TUN device, a namespace or another program.
        "CTunnelSystem", linuxHost, onLinux("TunnelServer"), onLinux("Gateway"), "CredentialTunnel", "Provisioning",
        "PasswordHashing", "HostConformance", "CommandLineTesting", "CompatibilityFixtures", "culvert", "culvert-wg",
        "culvert-enroll", "culvert-c-example", "echo-tunnel-example",
    ] + (buildsForLinux ? ["culvert-gateway"] : []),
]

// MARK: - The package

let package = Package(
    name: "culvert",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: libraries.map { .library(name: $0.key, targets: [$0.key]) } + [
        .library(name: "culvert-c", type: .dynamic, targets: ["CulvertC"]),
        .library(name: "culvert-c-static", type: .static, targets: ["CulvertC"]),
    ] + programs.map { .executable(name: $0.key, targets: [$0.key]) },
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
        .target(name: "CTunnelSystem"),
        .target(name: "CCulvert"),
        .executableTarget(name: "culvert-c-example", dependencies: ["CulvertC", "CCulvert"], path: "Examples/CTunnel"),
    ]
)
for (name, dependencies) in [libraries, internalLibraries].joined() where !emptyModules.contains(name) {
    let excluded = (linuxLibraries + appleLibraries).contains(name) ? ["Elsewhere"] : []
    package.targets.append(.target(name: name, dependencies: dependencies, exclude: excluded, swiftSettings: settings))
}
package.targets += emptyModules.map { .target(name: $0, path: "Sources/\($0)/Elsewhere") }
package.targets += [programs, examples].joined().map {
    .executableTarget(name: $0, dependencies: $1, swiftSettings: settings)
}
package.targets += tests.map { .testTarget(name: $0, dependencies: $1, swiftSettings: settings) }
package.targets += testSupport.map {
    .target(name: $0, dependencies: $1, path: "Tests/Support/\($0)", swiftSettings: settings)
}
if !buildsForLinux {
    package.products.removeAll { onlyOnLinux.contains($0.name) }
    package.targets.removeAll { onlyOnLinux.contains($0.name) }
}
for target in package.targets {
    switch target.name {
    case "DemoSupport": target.resources = [.embedInCode("namespaces.sh")]  // An installed program has no other files.
    case "LoginTunnelTutorial": target.path = "Sources/CredentialTunnel/CredentialTunnel.docc/Resources"
    case "linux-tunnel-example": target.path = "Examples/LinuxTunnel"
    case "echo-tunnel-example": (target.path, target.exclude) = ("Examples/EchoTunnel", ["Tests"])
    case "EchoTunnelTests": target.path = "Examples/EchoTunnel/Tests"
    case "PrivilegedTests": target.path = "Tests/Privileged"
    case "FuzzTests": (target.path, target.exclude) = ("Fuzz/Sources", ["Program"])
    case "CulvertCTests": target.swiftSettings = basics
    // Swift 6.3.1 crashes when it optimizes them: "While splitting coroutine".
    case "TrustPinningTests":
        target.swiftSettings = settings + [.unsafeFlags(["-Onone"], .when(configuration: .release))]
    default: break
    }
}

// MARK: - The Apple code, against stand-ins

// With CULVERT_STANDINS=1 (scripts/standins), modules with the names of Apple's frameworks join the build, and conditions such
// as `#if canImport(NetworkExtension)` hold. Other packages might find these modules, so only the parts that use them are built.
if Context.environment["CULVERT_STANDINS"] == "1" {
    let kept = [
        "CTunnelSystem", "NetworkAddresses", "TunnelSystem", "WireGuardCore", "TunnelIO", "WireGuardDevice",
        "PacketTunnel", "PacketTunnelLinux", "PacketTunnelApple", "WireGuardTunnel", "CredentialTunnel", "Provisioning",
        "PacketTunnelTesting", "HostConformance", "WireGuardTesting", "TrustPinning", "TrustPinningTesting",
        "TrustPinningTests", "TrustPinningFoundation", "PinnedProvisioning", "ProvisioningApple", "CCulvert",
        "CulvertC", "echo-tunnel-example",
    ]
    let standIns: [Target.Dependency] = ["NetworkExtension", "Network", "Security", "os"]
    package.products = []
    package.targets.removeAll { !kept.contains($0.name) }
    for target in package.targets {
        switch target.name {
        case "PacketTunnelApple", "ProvisioningApple", "TrustPinning": target.dependencies += standIns
        case "PinnedProvisioning": target.dependencies = requests + standIns + ["TrustPinningFoundation"]
        case "TrustPinningTests": target.dependencies += standIns + ["StandInVerifier"]
        case "TrustPinningFoundation": target.dependencies = ["TrustPinning"] + standIns
        default: break
        }
    }
    // swift-certificates asks for Security too, and wants all of it: it is built before there is any.
    let frameworks: Table = [
        "NetworkExtension": ["Network"], "Network": [], "Security": [x509], "os": [],
        "StandInVerifier": ["Security", x509, asn1],
    ]
    package.targets += frameworks.map {
        .target(name: $0, dependencies: $1, path: "Tests/StandIns/\($0)", swiftSettings: [.swiftLanguageMode(.v6)])
    }
    let providers =
        standIns + [
            "PacketTunnel", "PacketTunnelApple", "WireGuardTunnel", "CredentialTunnel", "Provisioning", logging,
        ]
    let tests =
        standIns + wireGuardTests + [
            "PacketTunnelApple", "CredentialTunnel", "Provisioning", "PinnedProvisioning", "ProvisioningApple",
            "HostConformance", "WireGuardTesting", "AppleTunnelExtension", "AppleTunnelModel", "TrustPinning",
            "TrustPinningFoundation", "TrustPinningTesting", "StandInVerifier", "PinnedAppModel",
            "CExtension", "CEchoProtocol", "echo-tunnel-example",
        ]
    package.targets += [
        // The examples: an extension with a protocol in C; and an extension with its app's model, without the views.
        .target(name: "CEchoProtocol", dependencies: ["CCulvert", "CulvertC"], path: "Examples/CExtension/Protocol"),
        .target(
            name: "CExtension", dependencies: providers + ["CEchoProtocol", "NetworkAddresses"],
            path: "Examples/CExtension/Extension", swiftSettings: settings),
        .target(
            name: "AppleTunnelExtension", dependencies: ["AppleTunnelModel"], path: "Examples/AppleTunnel/Extension",
            exclude: ["Info.plist", "LoginInfo.plist", "AddKeyInfo.plist", "AppleTunnelExtension.entitlements"],
            swiftSettings: settings),
        .target(
            name: "AppleTunnelModel",
            dependencies: providers + ["NetworkAddresses", "TrustPinning", "TrustPinningFoundation", "WireGuardCore"],
            path: "Examples/AppleTunnel/Model", swiftSettings: settings),
        .target(
            name: "PinnedAppModel", dependencies: standIns + ["TrustPinning", "TrustPinningFoundation"],
            path: "Examples/PinnedApp/Model", swiftSettings: settings),
        .testTarget(name: "AppleTests", dependencies: tests, swiftSettings: settings),
        // With links to the namespaces and processes of the other privileged tests, which say their module's name.
        .testTarget(
            name: "PrivilegedTests", dependencies: tests + ["PacketTunnelLinux"], path: "Tests/PrivilegedApple",
            swiftSettings: settings),
    ]
}

// MARK: - Measuring and fuzzing

// With CULVERT_BENCH=1 (scripts/bench) the benchmarks join the build, with the flags of the programs: one release build serves
// both. CULVERT_BENCH=tunnels (CI's sample) leaves out pinning's, for which NIO, X.509 and another BoringSSL would be built.
let benchmarks = Context.environment["CULVERT_BENCH"]
if benchmarks == "1" || benchmarks == "tunnels", Context.environment["CULVERT_STANDINS"] != "1" {
    var dependencies = engine + ["CredentialTunnel", "PacketTunnel", "PacketTunnelTesting", crypto]
    let measuresTrust = benchmarks == "1"
    if measuresTrust { dependencies += ["TrustPinning", "TrustPinningNIO", x509, asn1] + nio }
    // Tunnels, namespaces and stages without their kernel are for Linux; the rest runs anywhere.
    #if os(Linux)
        dependencies += ["CStageCalls", "TunnelServer"]
        package.targets.append(.target(name: "CStageCalls", path: "Benchmarks/CStageCalls"))
        let excluded = "Darwin"
        let wrapped = ["read", "writev", "recvmmsg", "sendmmsg"].map { "--wrap=ctunnel_\($0)" }
        // Valgrind takes offence at the debug information of new compilers; names of functions stay.
        let linking = [LinkerSetting.unsafeFlags((wrapped + ["--strip-debug"]).flatMap { ["-Xlinker", $0] })]
    #else
        let excluded = "Linux", linking: [LinkerSetting] = []
    #endif
    package.targets.append(
        .executableTarget(
            name: "culvert-bench", dependencies: dependencies, path: "Benchmarks/culvert-bench",
            exclude: [excluded, "Tests"] + (measuresTrust ? [] : ["Trust"]),
            swiftSettings: settings + (measuresTrust ? [.define("MEASURES_TRUST")] : []), linkerSettings: linking))
} else if Context.environment["CULVERT_STANDINS"] != "1" {
    let untested = ["Cases", "Darwin", "Linux", "Results", "Trust", "Pair.swift", "Program.swift"]
    package.targets.append(
        .testTarget(
            name: "BenchmarkTests", path: "Benchmarks/culvert-bench", exclude: untested, swiftSettings: settings))
}

// The tests run the fuzzers' checks on the seeds. With CULVERT_FUZZ=1 (scripts/fuzz) they are a program for libFuzzer.
if Context.environment["CULVERT_FUZZ"] == "1", let checks = package.targets.first(where: { $0.name == "FuzzTests" }) {
    package.targets.removeAll { $0.type == .test }
    package.targets.append(
        .executableTarget(
            name: "culvert-fuzz", dependencies: checks.dependencies, path: "Fuzz/Sources", exclude: ["Tests"],
            swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
}
