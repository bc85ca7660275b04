// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension MemoryBudget {
    /// Parses a budget: `extension`, `client`, `gateway:PEERS`, or `MIB:PEERS`, such as `64:2000`.
    /// - Parameter lanes: The largest number of lanes.
    /// - Throws: The error in `text`, with valid forms.
    package init(text: String, lanes: Int) throws(MemoryBudgetTextError) {
        switch text {
        case "extension": self = .extension
        case "client": self = .client
        default:
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, let peers = Self.number(parts[1]), (1...MemoryDemand.mostPeers).contains(peers)
            else { throw .unreadable(text) }
            if parts[0] == "gateway" {
                self = .gateway(peers: peers, lanes: lanes)
                return
            }
            guard let size = Self.number(parts[0]), (1...1_048_576).contains(size) else { throw .unreadable(text) }
            do throws(MemoryBudgetError) {
                self = try .custom(bytes: size << 20, peers: peers, lanes: lanes)
            } catch {
                throw .tooSmall(text, error)
            }
        }
    }

    private static func number(_ text: Substring) -> Int? {
        guard (1...7).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text)
    }
}

/// The error of a text that is not a ``MemoryBudget``.
package enum MemoryBudgetTextError: Error, Hashable, CustomStringConvertible {
    /// The text has none of the valid forms.
    case unreadable(String)
    /// The memory does not suffice for the peers.
    case tooSmall(String, MemoryBudgetError)

    package var description: String {
        switch self {
        case .unreadable(let text):
            """
            '\(text)'; it must be extension, client, gateway:PEERS, or MIB:PEERS such as 64:2000, with 1 to \
            \(MemoryDemand.mostPeers) peers
            """
        case .tooSmall(let text, let error): "'\(text)': \(error)"
        }
    }
}
