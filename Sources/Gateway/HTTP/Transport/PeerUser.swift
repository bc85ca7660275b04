// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NIOCore

/// Reads the user at the other end of a Unix socket that NIO has accepted.
enum PeerUser {
    /// `struct ucred`, which the C library declares for GNU sources only.
    private struct Credentials: Sendable {
        var process: Int32 = 0
        var user: UInt32 = .max
        var group: UInt32 = .max
    }

    /// The user at the time of the connection; `nil` for another kind of connection.
    static func user(of channel: any Channel) async -> UInt32? {
        guard channel.remoteAddress?.ipAddress == nil, let provider = channel as? any SocketOptionProvider else {
            return nil
        }
        let option = NIOBSDSocket.Option(rawValue: CInt(SO_PEERCRED))
        let future: EventLoopFuture<Credentials> = provider.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: CInt(SOL_SOCKET)), name: option)
        guard let credentials = try? await future.get(), credentials.process > 0 else { return nil }
        return credentials.user
    }
}
