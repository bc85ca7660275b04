// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import NetworkAddresses
import PacketTunnel
import TunnelSystem

// The name servers of the network outside of a tunnel.
extension ResolverControl {
    /// The folder in which Debian's resolvconf stores records by interface.
    static let debianRecords = "/run/resolvconf/interface"

    /// Returns the name servers that the machine would use without `tunnel`, the preferred one first.
    /// - Parameter record: The record of the tunnel's own servers, or `nil` if they are not set.
    func outsideServers(tunnel: String, record: ResolverRecord?) throws(LinuxNetworkError) -> [IPAddress] {
        guard let record else {
            // resolv.conf has the servers if either resolvconf writes it. Both are shell scripts, and each start of a
            // tunnel would wait for the version of the installed one.
            return try usesResolved() ? resolvedServers(without: tunnel) : inFile()
        }
        switch record.manager {
        case .resolved: return try resolvedServers(without: tunnel)
        case .openresolv:
            let program = try required("resolvconf")
            let labels = try openresolvInterfaces(program).map(String.init)
            var found: [IPAddress] = []
            for label in labels where label != record.label {
                let text = try program.run(["-l", label], seconds: patience).output
                found += Self.addresses(ResolvConf.servers(in: text))
            }
            return found.isEmpty ? Self.before(record) : Self.unique(found)
        case .debianResolvconf: return try Self.unique(debianServers(without: record.label))
        }
    }

    /// resolv.conf contains only an address of the machine itself, and the firewall blocks systemd-resolved's own queries.
    private func resolvedServers(without tunnel: String) throws(LinuxNetworkError) -> [IPAddress] {
        let program = try required("resolvectl")
        return Self.addresses(inResolvectl: try program.check(["dns"], seconds: patience), without: tunnel)
    }

    private func inFile() throws(LinuxNetworkError) -> [IPAddress] {
        Self.addresses(try ResolverFile(at: file).servers)
    }

    /// Returns the servers in the file from before the tunnel.
    private static func before(_ record: ResolverRecord) -> [IPAddress] {
        guard let bytes = record.bytesAfter else { return [] }
        return addresses(ResolvConf.servers(in: String(decoding: bytes, as: UTF8.self)))
    }

    private func debianServers(without label: String) throws(LinuxNetworkError) -> [IPAddress] {
        let records = FolderContents.names(Self.debianRecords) ?? []
        var found: [IPAddress] = []
        for record in records.sorted() where !record.hasPrefix(".") && record != label {
            let text = try SmallFile.text("\(Self.debianRecords)/\(record)") ?? ""
            found += Self.addresses(ResolvConf.servers(in: text))
        }
        return found
    }

    /// Parses the addresses that `resolvectl dns` prints: one line for all links together, and one per link.
    static func addresses(inResolvectl text: String, without tunnel: String) -> [IPAddress] {
        var found: [IPAddress] = []
        for line in text.split(separator: "\n") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let title = line[..<colon]
            guard !title.hasSuffix("(\(tunnel))") else { continue }
            let words = line[line.index(after: colon)...].split(whereSeparator: \.isWhitespace)
            // The part after "#" is the name in the server's certificate.
            found += addresses(words.map { String($0.prefix { $0 != "#" }) })
        }
        return unique(found)
    }

    private static func addresses(_ texts: [String]) -> [IPAddress] { texts.compactMap { try? IPAddress($0) } }

    private static func unique(_ addresses: [IPAddress]) -> [IPAddress] {
        var seen: Set<IPAddress> = []
        return addresses.filter { seen.insert($0).inserted }
    }
}
