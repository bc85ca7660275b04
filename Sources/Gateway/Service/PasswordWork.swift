// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnel
import PasswordHashing
import Synchronization
import TunnelIO
import TunnelSystem

/// Hashes passwords on one thread for each processor.
final class PasswordWork: Sendable {
    let cost: PasswordHash.Cost
    private let threads = Mutex<WorkThreads?>(nil)
    private let whenCompared: @Sendable () async -> Void

    /// - Parameter whenCompared: Called after each comparison, before its result is used.
    init(_ cost: PasswordHash.Cost, whenCompared: @escaping @Sendable () async -> Void) {
        self.cost = cost
        self.whenCompared = whenCompared
    }

    /// The hash of a new password, as the store has it.
    func hash(_ password: [UInt8]) async throws(GatewayError) -> StoredPassword {
        let made = try await perform { [cost] in
            var random = SystemRandomNumberGenerator()
            return PasswordHash(password, cost: cost, using: &random)
        }
        guard let text = made.flatMap({ try? JSONEncoder().encode($0) }).map({ String(decoding: $0, as: UTF8.self) })
        else { throw .unavailable("a password cannot be hashed: there is too little memory") }
        return StoredPassword(text: text)
    }

    /// Whether the password is right. It takes the same time when none is stored, or when what is stored cannot be read.
    func matches(_ stored: StoredPassword?, _ password: SecretBytes) async throws(GatewayError) -> Bool {
        let known = stored.flatMap { try? JSONDecoder().decode(PasswordHash.self, from: Data($0.text.utf8)) }
            .flatMap { $0.isValid ? $0 : nil }
        let isRight = try await perform { [cost] in
            var bytes = password.bytes
            defer { wipe(&bytes) }
            return (known ?? .dummy(cost)).matches(bytes)
        }
        await whenCompared()
        return isRight
    }

    private func perform<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result
    ) async throws(GatewayError) -> Result {
        guard let result = try await running().run(body) else {
            throw .unavailable("no passwords are compared any more")
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
