// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

// Draws the targets of the manifest and their imports: `dev/check architecture --update` calls it with the manifest as JSON,
// once or several times for several platforms. The manifest determines the contents; this file has only positions and labels.

/// The column and row of a target, and its label.
struct Place {
    enum Family: String { case program, wireguard, tunnel, pinning, io, other }
    var column: Double
    var row: Int
    var family: Family
    var words: String

    init(_ column: Double, _ row: Int, _ family: Family, _ words: String) {
        (self.column, self.row, self.family, self.words) = (column, row, family, words)
    }
}

let places: [String: Place] = [
    "culvert-gateway": Place(1.5, 0, .program, "the gateway as a program"),
    "culvert-enroll": Place(4.3, 0, .program, "enrolling as a command"),
    "Gateway": Place(1.5, 1, .tunnel, "users, devices, HTTPS API"),
    "PinnedProvisioning": Place(5.0, 1, .pinning, "asking over pinned HTTPS"),
    "ProvisioningApple": Place(5.4, 0, .tunnel, "extensions, ready-made"),
    "culvert": Place(3.05, 1, .program, "tunnels as commands"),
    "Provisioning": Place(4.1, 2, .tunnel, "a tunnel that is asked for"),
    "culvert-wg": Place(0, 3, .program, "the daemon"),
    "CulvertC": Place(1, 3, .wireguard, "tunnels for C programs"),
    "WireGuardTunnel": Place(2, 3, .tunnel, "WireGuard as a provider"),
    "PacketTunnelLinux": Place(3, 3, .tunnel, "routes, DNS and firewall"),
    "PacketTunnelApple": Place(4, 3, .tunnel, "NetworkExtension, keychain"),
    "PacketTunnelTesting": Place(5, 3, .other, "time, chance and links"),
    "WireGuardDevice": Place(0.1, 4, .wireguard, "a running WireGuard"),
    "CCulvert": Place(1.06, 4, .other, "culvert.h"),
    "PacketTunnel": Place(3, 4, .tunnel, "what a tunnel is"),
    "PasswordHashing": Place(0.0, 2, .program, "passwords of logins"),
    "TunnelServer": Place(1.0, 2, .tunnel, "clients, NAT and firewall"),
    "culvert-pin": Place(4.1, 4, .program, "pins as commands"),
    "TrustPinningFoundation": Place(5.1, 4, .pinning, "over URLSession"),
    "CredentialTunnel": Place(2.02, 4, .tunnel, "login and password"),
    "WireGuardCore": Place(0.25, 5, .wireguard, "the protocol, without I/O"),
    "TunnelIO": Place(2.2, 5, .io, "TUN, UDP, offload, lanes"),
    "TrustPinningNIO": Place(4.6, 5, .pinning, "TLS and HTTPS on NIO"),
    "CommandLineSupport": Place(3.5, 5, .program, "output and status"),
    "DemoSupport": Place(3.05, 2, .program, "parts of demonstrations"),
    "TunnelSystem": Place(2.2, 7, .io, "descriptors, netlink, files"),
    "TrustPinning": Place(4.6, 6, .pinning, "pins, policies, chains"),
    "NetworkAddresses": Place(0.9, 8, .io, "addresses and their text"),
    "CTunnelSystem": Place(2.6, 8, .other, "what Swift cannot import"),
]

// MARK: - The manifest

struct Manifest: Decodable {
    struct Target: Decodable {
        var name: String
        var type: String
        var path: String?
        var dependencies: [Dependency]

        /// Tests, examples, benchmarks and what documentation shows are not the house.
        var isDrawn: Bool {
            type != "test" && path?.hasPrefix("Sources/") != false && path?.contains(".docc/") != true
        }
    }

    /// A target, or a product of a package.
    struct Dependency: Decodable {
        var name = ""
        var package: String?

        private enum Kind: String, CodingKey { case byName, target, product }

        init(from decoder: any Decoder) throws {
            let kinds = try decoder.container(keyedBy: Kind.self)
            guard let kind = kinds.allKeys.first else { return }
            var parts = try kinds.nestedUnkeyedContainer(forKey: kind)
            name = try parts.decode(String.self)
            if kind == .product { package = try parts.decode(String?.self) }
        }
    }

    var targets: [Target]
}

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data("architecture: \(message)\n".utf8))
    exit(1)
}

/// The imports of each target: targets, and packages without "swift-".
var imports: [String: Set<String>] = [:]
var packages: [String: Set<String>] = [:]

for file in CommandLine.arguments.dropFirst() {
    guard let data = FileManager.default.contents(atPath: file) else { fail("\(file) cannot be read") }
    let manifest: Manifest
    do { manifest = try JSONDecoder().decode(Manifest.self, from: data) } catch { fail("\(file): \(error)") }
    for target in manifest.targets where target.isDrawn {
        imports[target.name, default: []].formUnion(target.dependencies.filter { $0.package == nil }.map(\.name))
        packages[target.name, default: []].formUnion(
            target.dependencies.compactMap(\.package).map { $0.hasPrefix("swift-") ? String($0.dropFirst(6)) : $0 })
    }
}
for name in imports.keys.sorted() where places[name] == nil {
    fail("the target \(name) has no place in the picture; give it one in dev/architecture.swift")
}
imports = imports.mapValues { $0.filter { imports[$0] != nil } }

/// Returns the transitive imports of a target.
func reach(_ name: String) -> Set<String> {
    (imports[name] ?? []).reduce(into: []) { all, next in all.formUnion(reach(next).union([next])) }
}

/// The imports of a target that none of its imports has: the rest follows.
let arrows = imports.mapValues { direct in
    direct.filter { name in !direct.contains { $0 != name && reach($0).contains(name) } }
}
let news = packages.reduce(into: [String: [String]]()) { news, entry in
    let known = reach(entry.key).reduce(into: Set<String>()) { $0.formUnion(packages[$1] ?? []) }
    news[entry.key] = entry.value.subtracting(known).sorted()
}

// MARK: - The picture

let (columnWidth, rowHeight, width, height) = (196.0, 108.0, 182.0, 68.0)
let (left, top) = (22.0, 24.0)
let drawn = places.filter { imports[$0.key] != nil }.sorted {
    ($0.value.row, $0.value.column) < ($1.value.row, $1.value.column)
}

func x(_ place: Place) -> Double { left + place.column * columnWidth }
func y(_ place: Place) -> Double { top + Double(place.row) * rowHeight }
func n(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(abs(tenths % 10))"
}

let pageWidth = (drawn.map { x($0.value) + width }.max() ?? 0) + left
let pageHeight = (drawn.map { y($0.value) + height }.max() ?? 0) + 62

let sentences = drawn.map { name, _ in
    let list = (arrows[name] ?? []).sorted()
    return list.isEmpty ? "\(name) imports none." : "\(name) imports \(list.joined(separator: ", "))."
}

var svg = """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(n(pageWidth)) \(n(pageHeight))" width="\(n(pageWidth))" \
    height="\(n(pageHeight))" role="img" aria-labelledby="title description" \
    font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif">
      <!-- Drawn by dev/check architecture from the manifest. -->
      <title id="title">Culvert's targets and what they import</title>
      <desc id="description">\(sentences.joined(separator: " "))</desc>
      <style>
        .page { fill: #ffffff; stroke: #d0d7de }
        .program { fill: #fff8c5; stroke: #bf8700 }
        .wireguard { fill: #ddf4ff; stroke: #218bff }
        .tunnel { fill: #fff1e5; stroke: #e16f24 }
        .pinning { fill: #fbefff; stroke: #a475f9 }
        .io { fill: #dafbe1; stroke: #2da44e }
        .other { fill: #f6f8fa; stroke: #8c959f }
        .name { fill: #1f2328; font-size: 13.5px; font-weight: 600 }
        .text { fill: #57606a; font-size: 12px }
        .from { fill: #8250df; font-size: 11px }
        .arrow { stroke: #6e7781; stroke-width: 1.4; fill: none }
        .head { fill: #6e7781 }
        @media (prefers-color-scheme: dark) {
          .page { fill: #0d1117; stroke: #30363d }
          .program { fill: #2e2a0f; stroke: #d29922 }
          .wireguard { fill: #0c2d4a; stroke: #388bfd }
          .tunnel { fill: #3a2212; stroke: #f0883e }
          .pinning { fill: #271c3c; stroke: #a371f7 }
          .io { fill: #10301b; stroke: #3fb950 }
          .other { fill: #161b22; stroke: #6e7681 }
          .name { fill: #e6edf3 }
          .text { fill: #9da7b1 }
          .from { fill: #d2a8ff }
          .arrow { stroke: #8b949e }
          .head { fill: #8b949e }
        }
      </style>
      <defs>
        <marker id="to" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
          <path class="head" d="M0 0 L10 5 L0 10 z"/>
        </marker>
      </defs>
      <rect class="page" x="0.5" y="0.5" width="\(n(pageWidth - 1))" height="\(n(pageHeight - 1))" rx="10"/>

    """

for (name, place) in drawn {
    let ends = (arrows[name] ?? []).compactMap { places[$0] }.sorted { ($0.column, $0.row) < ($1.column, $1.row) }
    for (index, end) in ends.enumerated() {
        // Arrows leave side by side, and arrive where they come from.
        let from = x(place) + width * Double(index + 1) / Double(ends.count + 1)
        let to = x(end) + width / 2 + max(-60, min(60, (from - x(end) - width / 2) / 4))
        let (start, stop) = (y(place) + height, y(end))
        let bend = (stop - start) / 2
        svg += "  <path class=\"arrow\" marker-end=\"url(#to)\" "
        svg +=
            "d=\"M\(n(from)) \(n(start)) C\(n(from)) \(n(start + bend)) \(n(to)) \(n(stop - bend)) \(n(to)) \(n(stop))\"/>\n"
    }
}
for (name, place) in drawn {
    let middle = n(x(place) + width / 2)
    let added = news[name] ?? []
    svg += "  <rect class=\"\(place.family.rawValue)\" stroke-width=\"1.4\" "
    svg += "x=\"\(n(x(place)))\" y=\"\(n(y(place)))\" width=\"\(n(width))\" height=\"\(n(height))\" rx=\"8\"/>\n"
    let first = y(place) + (added.isEmpty ? 30 : 22)
    svg += "  <text class=\"name\" text-anchor=\"middle\" x=\"\(middle)\" y=\"\(n(first))\">\(name)</text>\n"
    svg +=
        "  <text class=\"text\" text-anchor=\"middle\" x=\"\(middle)\" y=\"\(n(first + 18))\">\(place.words)</text>\n"
    if !added.isEmpty {
        svg += "  <text class=\"from\" text-anchor=\"middle\" x=\"\(middle)\" y=\"\(n(first + 36))\">"
        svg += "+ \(added.joined(separator: ", "))</text>\n"
    }
}
let legend =
    "An arrow points at what is imported; what follows from others is left out. + names the packages that a target adds."
svg += "  <text class=\"text\" x=\"\(n(left))\" y=\"\(n(pageHeight - 24))\">\(legend)</text>\n</svg>\n"

FileHandle.standardOutput.write(Data(svg.utf8))
