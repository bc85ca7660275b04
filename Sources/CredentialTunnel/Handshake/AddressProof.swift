// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The proof that a client receives at the address that its datagrams are from. An attacker on the path can send them
/// from another host's address, and so direct the client's packets to that host.
///
/// A login and the renewal of keys are proof: only a client that has received the server's response continues. Until
/// then, the server sends to an address at most three times the bytes that it has received from there.
struct AddressProof {
    private var proven: Endpoint
    /// The bytes that may still be sent to an unproven address; `nil` for a proven one.
    private var credit: Int?
    private var nextQuestion: Instant?

    private static let factor = 3
    /// The bytes of the credit that packets leave to the messages of the protocol.
    private static let messageReserve = 64
    /// The minimum time between two questions. A client ignores questions that follow each other faster.
    private static let questionGap = Duration.seconds(5)

    init(proven: Endpoint) { self.proven = proven }

    var isProven: Bool { credit == nil }

    /// Records that the client has another address.
    mutating func move(to endpoint: Endpoint) {
        credit = endpoint == proven ? nil : 0
        nextQuestion = nil
    }

    /// Records that the client has received the server's response at this address, which is its current one.
    mutating func prove(_ endpoint: Endpoint) {
        proven = endpoint
        credit = nil
    }

    /// Records an authentic datagram from the current address.
    mutating func recordReceived(_ byteCount: Int) {
        if let credit { self.credit = credit + Self.factor * byteCount }
    }

    /// Records a message of the protocol to the current address.
    mutating func recordSent(_ byteCount: Int) {
        if let credit { self.credit = credit - byteCount }
    }

    /// Whether a question must be sent to the client now, whose answer proves its address.
    mutating func mustAsk(at now: Instant) -> Bool {
        guard !isProven, nextQuestion.map({ $0 <= now }) ?? true else { return false }
        nextQuestion = now + Self.questionGap
        return true
    }

    /// Records that the client renews the keys, which is an answer.
    mutating func recordRenewal(at now: Instant) { nextQuestion = now + Self.questionGap }

    /// Returns the number of packets, from the first, that may be sent now, and takes them from the credit.
    mutating func admit(_ count: Int, byteCount: (Int) -> Int) -> Int {
        guard var credit else { return count }
        var admitted = 0
        while admitted < count {
            let rest = credit - byteCount(admitted) - Layout.sealedOverhead
            guard rest >= Self.messageReserve else { break }
            credit = rest
            admitted += 1
        }
        self.credit = credit
        return admitted
    }
}
