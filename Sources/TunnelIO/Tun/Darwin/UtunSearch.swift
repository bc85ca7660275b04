// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The system calls that identify a utun socket among a process's descriptors.
package protocol UtunSearchSystem: Sendable {
    /// The kernel control that a descriptor is connected to (`getpeername`); `nil` for anything that is not connected to one.
    func controlID(of descriptor: Int32) -> UInt32?
    /// The id of the control named `com.apple.net.utun_control`, asked through this descriptor (`CTLIOCGINFO`); nil when
    /// the system refuses.
    func utunControlID(through descriptor: Int32) -> UInt32?
    /// The name of a socket's interface; `nil` if it is not a utun socket.
    func interfaceName(of descriptor: Int32) -> String?
    /// The index of an interface; zero when there is none of this name.
    func interfaceIndex(of name: String) -> UInt32
    /// The most descriptors that the process may have.
    func descriptorLimit() -> Int32
}

/// Finds the utun socket that the system opened for a tunnel extension, which the system does not report to it.
///
/// A process may have several utun sockets: that of its tunnel, and those of relays or of a tunnel that is stopping. So
/// the name or index of the interface selects one; the search never guesses the lowest number.
package enum UtunSearch {
    /// The selection of the interface.
    package enum Wanted: Hashable, Sendable {
        /// The interface's name, as `utun4`.
        case name(String)
        /// The interface's index.
        case index(UInt32)
        /// The only one there is.
        case only
    }

    /// The most descriptors that are checked.
    private static let mostDescriptors: Int32 = 65_536

    /// The descriptor of the selected interface. Its owner keeps it.
    /// - Throws: `.deviceNotFound` if none matches, or more than one.
    package static func find(_ wanted: Wanted, system: some UtunSearchSystem) throws(TunnelIOError) -> Int32 {
        var found: [(descriptor: Int32, name: String)] = []
        var others: [String] = []
        for descriptor in 0..<max(0, min(system.descriptorLimit(), mostDescriptors)) {
            guard let id = system.controlID(of: descriptor),
                // Other kernel controls have sockets of the same kind.
                let utun = system.utunControlID(through: descriptor), utun == id,
                let name = system.interfaceName(of: descriptor)
            else { continue }
            let isWanted =
                switch wanted {
                case .name(let wantedName): name == wantedName
                case .index(let index): index != 0 && system.interfaceIndex(of: name) == index
                case .only: true
                }
            if isWanted { found.append((descriptor, name)) } else { others.append(name) }
        }
        // Descriptors of one interface are duplicates of each other, so any of them can be used.
        guard let first = found.first else {
            throw TunnelIOError(.deviceNotFound(reason: absence(wanted, others)))
        }
        guard found.allSatisfy({ $0.name == first.name }) else {
            let names = Set(found.map(\.name)).sorted().joined(separator: ", ")
            throw TunnelIOError(
                .deviceNotFound(reason: "this process has several, \(names); specify one by its name or index"))
        }
        return first.descriptor
    }

    /// The descriptor of the interface that the system created for this tunnel. Its owner keeps it.
    ///
    /// Only the name proves that a socket belongs to this tunnel: even the only utun socket of a process may belong to
    /// another tunnel.
    /// - Parameter name: The name that the system reports for the tunnel's interface; `nil` if it reports none.
    /// - Throws: `.deviceNotFound` without a name, or if no socket of the process has that interface.
    package static func find(ofTunnel name: String?, system: some UtunSearchSystem) throws(TunnelIOError) -> Int32 {
        guard let name else {
            throw TunnelIOError(
                .deviceNotFound(reason: "the system does not report the name of this tunnel's interface"))
        }
        return try find(.name(name), system: system)
    }

    private static func absence(_ wanted: Wanted, _ others: [String]) -> String {
        let which =
            switch wanted {
            case .name(let name): "'\(name)' is not among the utun interfaces of this process"
            case .index(let index): "no utun interface of this process has the index \(index)"
            case .only: "this process has no utun socket; search after the network settings were applied"
            }
        return others.isEmpty ? which : "\(which), which has \(Set(others).sorted().joined(separator: ", "))"
    }
}
