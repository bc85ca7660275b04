// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Checks whether handshake messages were made for a device by a sender that knows its public key (WireGuard paper,
/// section 5.4.4). It is a copy of data that is constant while the device has its key, so the check needs no access to
/// the engine.
public struct HandshakeFilter: Sendable {
    private let key: Bytes32

    init(_ identity: Identity) { key = identity.mac1Key }

    /// Whether a datagram is an initiation or a response.
    @unsafe
    @inline(__always)
    static func isConcerned(_ datagram: PacketView) -> Bool {
        switch unsafe MessageKind.classify(datagram.base, byteCount: datagram.count) {
        case .initiation, .response: true
        case .cookieReply, .data, nil: false
        }
    }

    /// Whether an initiation or a response has a valid mac1.
    @unsafe
    func passes(_ datagram: PacketView) -> Bool {
        unsafe CookieChecker.isMac1Valid(
            UnsafeRawBufferPointer(start: datagram.base, count: datagram.count), key: key)
    }

    /// Empties the views of handshake messages that fail the check, so that later steps skip them.
    ///
    /// - Parameters:
    ///   - datagrams: Views of datagrams.
    ///   - filter: Called if there is a handshake message. If it returns `nil`, all pass; an engine without a key drops
    ///     them itself.
    /// - Returns: The number of messages that failed, for ``Engine/countRefusedHandshakes(_:)``.
    @unsafe
    public static func refuse(
        _ datagrams: UnsafeMutableBufferPointer<PacketView>, with filter: () -> HandshakeFilter?
    ) -> Int {
        var refused = 0
        var known: HandshakeFilter?
        for index in datagrams.indices where unsafe isConcerned(datagrams[index]) {
            if known == nil { known = filter() }
            guard let known else { return refused }
            if unsafe !known.passes(datagrams[index]) {
                unsafe datagrams[index].count = 0
                refused += 1
            }
        }
        return refused
    }
}

extension Engine {
    /// The filter for this device's handshake messages, or `nil` while it has no key or is down.
    public var handshakeFilter: HandshakeFilter? { isUp ? identity.map(HandshakeFilter.init) : nil }

    /// Counts handshake messages that ``HandshakeFilter/refuse(_:with:)`` refused.
    public mutating func countRefusedHandshakes(_ count: Int) { statistics.invalidMac1 += UInt64(count) }
}
