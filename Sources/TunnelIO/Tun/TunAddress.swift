// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// An address of an interface, with the network that it is in and, on a point-to-point link, the other end.
public struct TunAddress: Hashable, Sendable, CustomStringConvertible {
    /// An IP address. Numbers are in host order.
    public enum Host: Hashable, Sendable, CustomStringConvertible {
        /// An IPv4 address.
        case v4(UInt32)
        /// The first and the second half of an IPv6 address.
        case v6(UInt64, UInt64)

        /// An address from its text (RFC 4291 section 2.2, or four decimal numbers); nil where it is none.
        public init?(_ text: some StringProtocol) {
            let text = String(text)
            var v4 = in_addr()
            var v6 = in6_addr()
            if unsafe inet_pton(AF_INET, text, &v4) == 1 {
                self = .v4(UInt32(bigEndian: v4.s_addr))
            } else if unsafe inet_pton(AF_INET6, text, &v6) == 1 {
                self = unsafe withUnsafeBytes(of: &v6) { unsafe Self.v6($0) }
            } else {
                return nil
            }
        }

        /// The address of 4 or 16 bytes in network order; nil for another number of bytes.
        package init?(bytes: UnsafeRawBufferPointer) {
            switch bytes.count {
            case 4: self = unsafe .v4(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
            case 16: self = unsafe Self.v6(bytes)
            default: return nil
            }
        }

        private static func v6(_ bytes: UnsafeRawBufferPointer) -> Host {
            unsafe .v6(
                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }

        /// Whether it is an IPv6 address.
        public var isIPv6: Bool {
            if case .v6 = self { true } else { false }
        }

        /// The bytes in network order.
        package var bytes: [UInt8] {
            switch self {
            case .v4(let number): unsafe withUnsafeBytes(of: number.bigEndian) { unsafe Array($0) }
            case .v6(let high, let low):
                unsafe withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { unsafe Array($0) }
            }
        }

        /// Whether it is good on one link only (RFC 4291 section 2.5.6).
        var isLinkLocal: Bool {
            if case .v6(let high, _) = self { high >> 54 == 0xfe80 >> 6 } else { false }
        }

        /// The address as RFC 5952 writes it.
        public var description: String {
            let bytes = bytes
            return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
                guard
                    let start = unsafe inet_ntop(
                        isIPv6 ? AF_INET6 : AF_INET, bytes, text.baseAddress, socklen_t(text.count))
                else { return "?" }
                return unsafe String(cString: start)
            }
        }
    }

    /// The interface's own address.
    public var host: Host
    /// How many bits of ``peer``, or of ``host`` where there is no peer, are the network's: 0 to 32, or to 128.
    public var prefixLength: Int
    /// The address of the other end; nil for none. Of the same family as ``host``.
    public var peer: Host?

    /// An address.
    public init(_ host: Host, prefixLength: Int, peer: Host? = nil) {
        self.host = host
        self.prefixLength = prefixLength
        self.peer = peer
    }

    /// An address from text such as `10.0.0.1/24`, `fd00::1/64` or `10.0.0.1` (one address). Nil where it is none.
    /// - Parameters:
    ///   - text: the address, with the prefix's length or without.
    ///   - peer: the address of the other end.
    public init?(_ text: String, peer: String? = nil) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let host = parts.first.flatMap({ Host($0) }) else { return nil }
        let longest = host.isIPv6 ? 128 : 32
        var length = longest
        if parts.count == 2 {
            guard parts[1].utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = Int(parts[1]), number <= longest
            else { return nil }
            length = number
        }
        var other: Host?
        if let peer {
            guard let host = Host(peer) else { return nil }
            other = host
        }
        self.init(host, prefixLength: length, peer: other)
        guard problem == nil else { return nil }
    }

    /// What is wrong with the address; nil when nothing is.
    var problem: String? {
        let longest = host.isIPv6 ? 128 : 32
        guard (0...longest).contains(prefixLength) else {
            return "the prefix length \(prefixLength) of \(host) is not within 0 to \(longest)"
        }
        if let peer, peer.isIPv6 != host.isIPv6 { return "\(host) and its peer \(peer) are of two families" }
        return nil
    }

    /// `10.0.0.1/24`, or `10.0.0.1 peer 10.0.0.2/32`.
    public var description: String {
        if let peer { "\(host) peer \(peer)/\(prefixLength)" } else { "\(host)/\(prefixLength)" }
    }
}
