// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The highest version that was accepted, and which envelope that was.
public struct AcceptedVersion: Sendable, Hashable {
    /// The version.
    public let version: Int64
    /// The SHA-256 of what was signed.
    public let digest: PinHash

    /// A version with the digest of its envelope.
    public init(version: Int64, digest: PinHash) {
        self.version = version
        self.digest = digest
    }
}

/// Keeps what was accepted, from one start of the app to the next.
///
/// Names tell apps and environments apart. A store that keeps versions where they outlast the app (a keychain) keeps old
/// envelopes out after a new installation too.
public protocol RemotePolicyStore: Sendable {
    /// The version that was accepted last; nil if none ever was. A store that cannot tell throws: nil would let any version
    /// in.
    func acceptedVersion(_ name: String) throws -> AcceptedVersion?
    /// Keeps a version. It is on disk when this returns.
    func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws
    /// The envelopes in force, as they were fetched; none if there are none.
    func envelopes(_ name: String) throws -> [[UInt8]]
    /// Replaces the envelopes in force, all at once.
    func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws
}

/// Keeps what was accepted in two files of a folder, which only their owner may read. Each is replaced as a whole or not
/// at all, and is on disk when it was kept. A version is never replaced by a lower one, though several processes share
/// the folder.
public struct FileRemotePolicyStore: RemotePolicyStore {
    private let folder: URL

    /// A store in a folder, which is made when it is needed.
    public init(folder: URL) { self.folder = folder }

    /// The version that was accepted last; nil if there is no file.
    ///
    /// - Throws: ``EnvelopeError`` with `storeFailed` for a file that cannot be read or that is damaged.
    public func acceptedVersion(_ name: String) throws -> AcceptedVersion? {
        try read(name, "version").map(Self.version)
    }

    private static func version(_ bytes: [UInt8]) throws(EnvelopeError) -> AcceptedVersion {
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[2].isEmpty, let version = Int64(parts[0]), version > 0,
            let digest = try? PinHash(String(parts[1]))
        else { throw EnvelopeError(.storeFailed, "the file with the version that was accepted is damaged") }
        return AcceptedVersion(version: version, digest: digest)
    }

    /// Keeps a version.
    ///
    /// - Throws: ``EnvelopeError`` with `rolledBack` if a higher one is there, which another process has accepted meanwhile.
    public func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws {
        let bytes = Array("\(version.version)\n\(version.digest.base64)\n".utf8)
        guard let folder = try DurableFolder(path: folder.path, makingIt: true) else { return }
        try folder.lock()
        if let present = try folder.read(Self.file(name, "version")).map(Self.version),
            present.version > version.version
        {
            throw EnvelopeError(
                .rolledBack, "version \(version.version) is older than \(present.version), which was accepted meanwhile"
            )
        }
        try folder.write(bytes, to: Self.file(name, "version"))
    }

    /// The envelopes in force.
    public func envelopes(_ name: String) throws -> [[UInt8]] {
        guard let bytes = try read(name, "envelopes") else { return [] }
        var rest = bytes[...]
        var envelopes: [[UInt8]] = []
        while !rest.isEmpty {
            let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            guard rest.count >= 4, rest.count - 4 >= length else {
                throw EnvelopeError(.storeFailed, "the file with the envelopes is damaged")
            }
            envelopes.append(Array(rest.dropFirst(4).prefix(length)))
            rest = rest.dropFirst(4 + length)
        }
        return envelopes
    }

    /// Replaces the envelopes in force.
    public func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws {
        let bytes = envelopes.flatMap { envelope in
            stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: envelope.count >> $0) } + envelope
        }
        guard let folder = try DurableFolder(path: folder.path, makingIt: true) else { return }
        try folder.write(bytes, to: Self.file(name, "envelopes"))
    }

    private func read(_ name: String, _ kind: String) throws -> [UInt8]? {
        try DurableFolder(path: folder.path, makingIt: false)?.read(Self.file(name, kind))
    }

    /// Names come from the app, but are no paths.
    private static func file(_ name: String, _ kind: String) -> String {
        let safe = name.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            guard byte < 0x80, character.isLetter || character.isNumber || character == "-" else {
                return (byte < 16 ? "_0" : "_") + String(byte, radix: 16)
            }
            return String(character)
        }
        return "trust-\(safe.joined()).\(kind)"
    }
}

/// Fetches envelopes. It needs no protection of its own: what it brings is verified.
public protocol EnvelopeTransport: Sendable {
    /// The current envelope in JSON.
    func fetch() async throws -> [UInt8]
}
