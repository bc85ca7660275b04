// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TunnelIO
import WireGuardCore

/// The largest number of handshakes that a daemon completes: a bounded number at the same time, and each peer again in its
/// turn.
enum HandshakeLoad {
    static let command = "handshake-load"
    private static let atOnce = 64
    /// Nanoseconds after which an initiation is taken for lost.
    private static let patience = 200_000_000

    /// Prints the completed handshakes, their time in seconds, the cookies that were requested, and the abandoned handshakes.
    static func run(_ arguments: ArraySlice<String>) throws {
        let words = Array(arguments)
        let crowd = try PeerCrowd(words)
        guard let seconds = Int(words[4]), (1...60).contains(seconds) else {
            throw UsageError(message: "\(command): wrong time")
        }
        var line = Array(crowd.members.indices)
        var next = 0
        var waiting: Set<Int> = []
        var completed = 0
        var lost = 0
        let start = nanoseconds()
        let end = start + seconds * 1_000_000_000
        var checkedAt = start
        while nanoseconds() < end {
            while waiting.count < atOnce, next < line.count {
                let number = line[next]
                next += 1
                waiting.insert(number)
                try crowd.begin(number)
            }
            try crowd.flush()
            if UDPWait.readable(crowd.socket.readiness, milliseconds: 20) {
                try crowd.receive { number in
                    completed += 1
                    waiting.remove(number)
                    line.append(number)
                }
            }
            if next > 4096 {
                line.removeFirst(next)
                next = 0
            }
            let now = nanoseconds()
            guard now - checkedAt > patience / 4 else { continue }
            checkedAt = now
            let late = waiting.filter { now - (crowd.members[$0].askedAt ?? now) > patience }
            for number in late {
                waiting.remove(number)
                line.append(number)
                lost += 1
            }
        }
        let cookies = crowd.members.reduce(0) { $0 + $1.engine.statistics.cookieRepliesAccepted }
        print(completed, Double(nanoseconds() - start) / 1e9, cookies, lost)
    }
}
