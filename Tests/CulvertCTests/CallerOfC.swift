// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CCulvert
import CulvertC
import Synchronization

@testable import WireGuardCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// One side of a tunnel, driven as a C program would: a socket pair, a key and a handle.
final class Side {
    let key: TestKey
    /// The end that the program holds.
    let inside: Int32
    private var outside: Int32
    private(set) var tunnel: OpaquePointer?

    init() throws {
        key = TestKey()
        var ends: [Int32] = [-1, -1]
        // SOCK_SEQPACKET, whose type the C libraries do not agree about.
        guard socketpair(AF_UNIX, 5, 0, &ends) == 0 else { throw TestFailure("no socket pair: \(errno)") }
        (inside, outside) = (ends[0], ends[1])
    }

    deinit {
        _ = culvert_free(tunnel)
        close(inside)
        if outside >= 0 { close(outside) }
    }

    /// Starts a tunnel to a peer.
    func start(
        with peer: PublicKey, at port: UInt16? = nil, addresses: String,
        _ change: (inout culvert_options) -> Void = { _ in }
    ) throws {
        var options = culvert_options()
        culvert_options_init(&options)
        options.descriptor = outside
        change(&options)
        var text =
            "[Interface]\nPrivateKey = \(key.text)\n[Peer]\nPublicKey = \(peer.base64)\nAllowedIPs = \(addresses)\n"
        if let port { text += "Endpoint = localhost:\(port)\n" }
        var error = culvert_error()
        let result = culvert_start(&options, text, &tunnel, &error)
        guard result == CULVERT_OK else { throw TestFailure("\(result): \(CText.of(&error.message))") }
        // The tunnel has its own.
        close(outside)
        outside = -1
    }

    /// Returns the end for the tunnel, which the caller must close.
    func takeOutside() -> Int32 {
        defer { outside = -1 }
        return outside
    }

    var handle: OpaquePointer {
        get throws {
            guard let tunnel = tunnel else { throw TestFailure("not started") }
            return tunnel
        }
    }

    var status: culvert_status {
        get throws {
            var status = culvert_status()
            culvert_status_init(&status)
            guard culvert_get_status(try handle, &status) == CULVERT_OK else { throw TestFailure("no status") }
            return status
        }
    }

    func write(_ packet: [UInt8]) -> Bool {
        packet.withUnsafeBytes { send(inside, $0.baseAddress, $0.count, 0) } == packet.count
    }

    /// The next packet, or `nil` if none arrives within half a minute.
    func read() -> [UInt8]? {
        var poller = pollfd(fd: inside, events: Int16(POLLIN), revents: 0)
        guard poll(&poller, 1, 30_000) == 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = bytes.withUnsafeMutableBytes { recv(inside, $0.baseAddress, $0.count, 0) }
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    func free() -> culvert_result {
        let result = culvert_free(tunnel)
        if result == CULVERT_OK { tunnel = nil }
        return result
    }
}

struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Text in a field of a C structure.
enum CText {
    static func of<Field>(_ field: inout Field) -> String {
        withUnsafeBytes(of: &field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}

/// An IPv4 packet with a unique payload.
enum TestPacket {
    static func make(from source: UInt8, to destination: UInt8, number: UInt16, byteCount: Int = 100) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: byteCount)
        bytes[0] = 0x45
        bytes[2] = UInt8(byteCount >> 8)
        bytes[3] = UInt8(byteCount & 255)
        bytes[8] = 64
        bytes[9] = 253
        bytes[12..<16] = [10, 0, 0, source]
        bytes[16..<20] = [10, 0, 0, destination]
        bytes[20] = UInt8(number >> 8)
        bytes[21] = UInt8(number & 255)
        return bytes
    }
}

/// A new key that is known as text too.
struct TestKey {
    let text: String
    let publicKey: PublicKey

    init() {
        var random = SystemRandomNumberGenerator()
        let key = PrivateKey(using: &random)
        text = key.exportedBase64
        publicKey = Identity(key).publicKey
    }
}
