// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnel
import PasswordHashing
import Synchronization
import TunnelIO
import TunnelSystem

/// Hashes passwords, on one thread for each processor.
final class PasswordWork: Sendable {
    let cost: PasswordHash.Cost
    private let threads = Mutex<WorkThreads?>(nil)
    private let whenCompared: @Sendable () async -> Void

    /// - Parameter whenCompared: Called after each comparison, before its result is used.
    init(_ cost: PasswordHash.Cost, whenCompared: @escaping @Sendable () async -> Void) {
        self.cost = cost
        self.whenCompared = whenCompared
    }

    /// The hash of a new password, in the store's form.
    func hash(_ password: [UInt8]) async throws(GatewayError) -> StoredPassword {
        let made = try await perform { [cost] in
            var random = SystemRandomNumberGenerator()
            return PasswordHash(password, cost: cost, using: &random)
        }
        guard let stored = made.flatMap(StoredPassword.init) else {
            throw .unavailable("cannot hash a password: not enough memory")
        }
        return stored
    }

    /// The hash with which a password is compared.
    /// - Parameter other: The password of another user. If `stored` is `nil` or cannot be read, no password matches the
    ///   returned hash, and the comparison costs as much as with `other`.
    func reference(_ stored: StoredPassword?, orAsCostlyAs other: StoredPassword?) -> PasswordHash {
        stored.flatMap(PasswordHash.init) ?? .dummy(other.flatMap(PasswordHash.init)?.cost ?? cost)
    }

    /// Whether the password is right. If `stored` is `nil` or cannot be read, the comparison costs as much as with
    /// `other`.
    func matches(
        _ stored: StoredPassword?, orAsCostlyAs other: StoredPassword?, _ password: SecretBytes
    ) async throws(GatewayError) -> Bool {
        let known = reference(stored, orAsCostlyAs: other)
        let isRight = try await perform {
            var bytes = password.bytes
            defer { wipe(&bytes) }
            return known.matches(bytes)
        }
        await whenCompared()
        return isRight
    }

    private func perform<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result
    ) async throws(GatewayError) -> Result {
        guard let result = try await running().run(body) else {
            throw .unavailable("the gateway is stopping and compares no passwords")
        }
        return result
    }

    private func running() throws(GatewayError) -> WorkThreads {
        try threads.withLock { (threads) throws(GatewayError) in
            if let threads { return threads }
            do throws(TunnelIOError) {
                let made = try WorkThreads(name: "culvert-password")
                threads = made
                return made
            } catch {
                throw .unavailable("\(error)")
            }
        }
    }
}

extension StoredPassword {
    /// A hash in the store's form.
    init?(_ hash: PasswordHash) {
        guard let data = try? JSONEncoder().encode(hash) else { return nil }
        self.init(text: String(decoding: data, as: UTF8.self))
    }
}

extension PasswordHash {
    /// Reads a hash; `nil` for other text.
    init?(_ stored: StoredPassword) {
        guard let hash = try? JSONDecoder().decode(PasswordHash.self, from: Data(stored.text.utf8)), hash.isValid
        else { return nil }
        self = hash
    }
}
