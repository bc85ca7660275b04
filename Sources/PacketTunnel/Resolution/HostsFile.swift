// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The machine's hosts file (hosts(5)), which takes precedence over name servers.
enum HostsFile {
    /// The text of the file; empty if it cannot be read.
    static var text: String {
        do { return try String(contentsOfFile: "/etc/hosts", encoding: .utf8) } catch { return "" }
    }

    /// Returns the addresses of `name` in the text of a hosts file.
    static func addresses(of name: String, in text: String) -> [IPAddress] {
        let wanted = name.lowercased()
        var found: [IPAddress] = []
        for line in text.split(whereSeparator: \.isNewline) {
            let entry = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let address = entry.first.flatMap({ try? IPAddress($0) }), !found.contains(address),
                entry.dropFirst().contains(where: { $0.lowercased() == wanted })
            else { continue }
            found.append(address)
        }
        return found
    }
}
