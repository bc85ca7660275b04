// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

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
    /// Replaces the envelopes in force and then keeps the version of the last one, if the version that is kept is still the
    /// one they were compared with. A store that several processes share does so in one step, as seen by the others.
    ///
    /// - Parameters:
    ///   - envelopes: those that are to be in force.
    ///   - version: that of the last of them.
    ///   - previous: what ``acceptedVersion(_:)`` gave when they were compared with what was in force.
    ///   - name: the app and environment.
    /// - Returns: false, with nothing changed, if another version was accepted meanwhile.
    func replaceEnvelopes(
        with envelopes: [[UInt8]], accepting version: AcceptedVersion, insteadOf previous: AcceptedVersion?,
        _ name: String
    ) throws -> Bool
}

/// Keeps what was accepted in two files of a folder, which only their owner may read. Each is replaced as a whole or not
/// at all, and is on disk when it was kept. Neither versions nor envelopes are ever replaced by lower ones, though several
/// processes share the folder.
public struct FileRemotePolicyStore: RemotePolicyStore {
    private let folder: URL
    /// The most bytes of a file.
    private static let byteLimit = 8 << 20

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
    /// - Throws: ``EnvelopeError`` with `rolledBack` if a higher one is there, which another process has accepted meanwhile,
    ///   or with `equivocation` if it is that of another envelope.
    public func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws {
        let folder = try lockedFolder()
        if let present = try folder.read(Self.file(name, "version")).map(Self.version) {
            try Self.check(version.version, isNotBelow: present.version)
            guard present.version < version.version || present.digest == version.digest else {
                throw EnvelopeError(
                    .equivocation, "another envelope of version \(version.version) was accepted meanwhile")
            }
        }
        try folder.write(Self.bytes(version), to: Self.file(name, "version"))
    }

    private static func bytes(_ version: AcceptedVersion) -> [UInt8] {
        Array("\(version.version)\n\(version.digest.base64)\n".utf8)
    }

    private static func check(_ version: Int64, isNotBelow present: Int64) throws(EnvelopeError) {
        guard version >= present else {
            throw EnvelopeError(
                .rolledBack, "version \(version) is older than \(present), which was accepted meanwhile")
        }
    }

    /// The envelopes in force.
    public func envelopes(_ name: String) throws -> [[UInt8]] {
        guard let bytes = try read(name, "envelopes") else { return [] }
        return try Self.parse(bytes)
    }

    private static func parse(_ bytes: [UInt8]) throws(EnvelopeError) -> [[UInt8]] {
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
    ///
    /// - Throws: ``EnvelopeError`` with `rolledBack` if the last of them is older than the last one that is there, or than
    ///   the version that was accepted.
    public func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws {
        let folder = try lockedFolder()
        let accepted = try folder.read(Self.file(name, "version")).map(Self.version)
        try Self.write(envelopes, name, accepted: accepted, in: folder)
    }

    /// Replaces the envelopes in force and keeps the version of the last one, with other processes kept out.
    ///
    /// - Returns: false if another version was accepted meanwhile.
    /// - Throws: ``EnvelopeError`` with `rolledBack` as ``setEnvelopes(_:_:)`` does.
    public func replaceEnvelopes(
        with envelopes: [[UInt8]], accepting version: AcceptedVersion, insteadOf previous: AcceptedVersion?,
        _ name: String
    ) throws -> Bool {
        let folder = try lockedFolder()
        let accepted = try folder.read(Self.file(name, "version")).map(Self.version)
        guard accepted == previous else { return false }
        if let accepted { try Self.check(version.version, isNotBelow: accepted.version) }
        try Self.write(envelopes, name, accepted: accepted, in: folder)
        try folder.write(Self.bytes(version), to: Self.file(name, "version"))
        return true
    }

    /// Writes envelopes that are not older than those that are there. What is there but damaged does not stay for that.
    private static func write(
        _ envelopes: [[UInt8]], _ name: String, accepted: AcceptedVersion?, in folder: PrivateDirectory<EnvelopeError>
    ) throws(EnvelopeError) {
        let present = try folder.read(file(name, "envelopes"))
        if let version = lastVersion(envelopes) {
            if let accepted { try check(version, isNotBelow: accepted.version) }
            if let present, let stored = try? parse(present), let last = lastVersion(stored) {
                try check(version, isNotBelow: last)
            }
        }
        let bytes = envelopes.flatMap { envelope in
            stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: envelope.count >> $0) } + envelope
        }
        try folder.write(bytes, to: file(name, "envelopes"))
    }

    private static func lastVersion(_ envelopes: [[UInt8]]) -> Int64? {
        envelopes.last.flatMap { try? PolicyEnvelope(json: $0) }?.version
    }

    private func read(_ name: String, _ kind: String) throws -> [UInt8]? {
        try PrivateDirectory<EnvelopeError>(existing: folder.path, access: Self.access, byteLimit: Self.byteLimit)?
            .read(Self.file(name, kind))
    }

    private func lockedFolder() throws(EnvelopeError) -> PrivateDirectory<EnvelopeError> {
        let folder = try PrivateDirectory<EnvelopeError>(
            path: folder.path, access: Self.access, byteLimit: Self.byteLimit)
        try folder.lock()
        return folder
    }

    private static let prefix = "trust-"
    private static let access = StorageAccess.asItIs(prefix: prefix)

    /// Names come from the app, but are no paths.
    private static func file(_ name: String, _ kind: String) -> String {
        let safe = name.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            guard byte < 0x80, character.isLetter || character.isNumber || character == "-" else {
                return (byte < 16 ? "_0" : "_") + String(byte, radix: 16)
            }
            return String(character)
        }
        return "\(prefix)\(safe.joined()).\(kind)"
    }
}

extension EnvelopeError: StorageFailure {
    package init(_ problem: StorageProblem) {
        self.init(.storeFailed, problem.fix.isEmpty ? problem.reason : "\(problem.reason); \(problem.fix)")
    }
}

/// Fetches envelopes. It needs no protection of its own: what it brings is verified.
public protocol EnvelopeTransport: Sendable {
    /// The current envelope in JSON.
    func fetch() async throws -> [UInt8]
}
