// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The highest accepted version, and the digest of its envelope.
public struct AcceptedVersion: Sendable, Hashable {
    /// The version.
    public let version: Int64
    /// The SHA-256 of the signed bytes.
    public let digest: PinHash

    /// Creates a version with the digest of its envelope.
    public init(version: Int64, digest: PinHash) {
        self.version = version
        self.digest = digest
    }
}

/// Stores the accepted version and the active envelopes, so that they survive restarts of the app.
///
/// A name identifies an app and an environment. If the versions in a store outlast the app, as in a keychain, old
/// envelopes are rejected even after the app was reinstalled.
public protocol RemotePolicyStore: Sendable {
    /// Returns the last accepted version, or `nil` if none was ever accepted. A store that cannot read the version must
    /// throw an error, because `nil` would permit any version.
    func acceptedVersion(_ name: String) throws -> AcceptedVersion?
    /// Stores a version. The version must be on disk when the call returns.
    func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws
    /// Returns the active envelopes, unchanged since they were fetched; empty if there are none.
    func envelopes(_ name: String) throws -> [[UInt8]]
    /// Replaces the active envelopes, all together.
    func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws
    /// Replaces the active envelopes and then stores the version of the last one, but only if the stored version is
    /// still `previous`. If several processes share a store, this must be a single step for the other processes.
    ///
    /// - Parameters:
    ///   - envelopes: The new active envelopes.
    ///   - version: The version of the last of them.
    ///   - previous: The result of ``acceptedVersion(_:)`` when the envelopes were compared with the active ones.
    ///   - name: The app and environment.
    /// - Returns: `false`, with nothing changed, if another version was accepted in the meantime.
    func replaceEnvelopes(
        with envelopes: [[UInt8]], accepting version: AcceptedVersion, insteadOf previous: AcceptedVersion?,
        _ name: String
    ) throws -> Bool
}

/// Stores the version and the envelopes in two files of a folder that only its owner can access. Each write replaces a
/// file atomically and returns when the file is on disk. A lower version or an older envelope never replaces a newer
/// one, even if several processes share the folder.
public struct FileRemotePolicyStore: RemotePolicyStore {
    private let folder: URL
    /// The maximum size of a file, in bytes.
    private static let byteLimit = 8 << 20

    /// Creates a store in a folder. The folder is created at the first write.
    public init(folder: URL) { self.folder = folder }

    /// Returns the last accepted version, or `nil` if there is no file.
    ///
    /// - Throws: ``EnvelopeError`` with `storeFailed` for a file that cannot be read or is damaged.
    public func acceptedVersion(_ name: String) throws -> AcceptedVersion? {
        try read(name, "version").map(Self.version)
    }

    private static func version(_ bytes: [UInt8]) throws(EnvelopeError) -> AcceptedVersion {
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[2].isEmpty, let version = Int64(parts[0]), version > 0,
            let digest = try? PinHash(String(parts[1]))
        else { throw EnvelopeError(.storeFailed, "the file of the accepted version is damaged") }
        return AcceptedVersion(version: version, digest: digest)
    }

    /// Stores a version.
    ///
    /// - Throws: ``EnvelopeError`` with `rolledBack` if another process has accepted a higher version in the meantime,
    ///   or with `equivocation` if the stored version is that of another envelope.
    public func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws {
        let folder = try lockedFolder()
        if let present = try folder.read(Self.file(name, "version")).map(Self.version) {
            try Self.check(version.version, isNotBelow: present.version)
            guard present.version < version.version || present.digest == version.digest else {
                throw EnvelopeError(
                    .equivocation, "another process has accepted a different envelope of version \(version.version)")
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
                .rolledBack, "version \(version) is older than \(present), which another process has accepted")
        }
    }

    /// Returns the active envelopes.
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
                throw EnvelopeError(.storeFailed, "the file of the envelopes is damaged")
            }
            envelopes.append(Array(rest.dropFirst(4).prefix(length)))
            rest = rest.dropFirst(4 + length)
        }
        return envelopes
    }

    /// Replaces the active envelopes.
    ///
    /// - Throws: ``EnvelopeError`` with `rolledBack` if the last of them is older than the last stored envelope, or
    ///   than the accepted version.
    public func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws {
        let folder = try lockedFolder()
        let accepted = try folder.read(Self.file(name, "version")).map(Self.version)
        try Self.write(envelopes, name, accepted: accepted, in: folder)
    }

    /// Replaces the active envelopes and stores the version of the last one, while a lock excludes other processes.
    ///
    /// - Returns: `false` if another version was accepted in the meantime.
    /// - Throws: ``EnvelopeError`` with `rolledBack` like ``setEnvelopes(_:_:)``.
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

    /// Writes envelopes unless they are older than the stored ones. Damaged stored envelopes are replaced.
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

    /// Returns the file name for a name of the app. Characters with a meaning in paths are escaped.
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

/// Fetches envelopes. The connection needs no protection, since each envelope is verified.
public protocol EnvelopeTransport: Sendable {
    /// Returns the current envelope in JSON.
    func fetch() async throws -> [UInt8]
}
