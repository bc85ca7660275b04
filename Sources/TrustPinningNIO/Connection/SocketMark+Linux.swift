// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NIOCore

    extension Channel {
        /// Sets the mark by which routes and firewalls recognise the socket's packets. Without the privilege to set it,
        /// the socket has no mark, and its packets use the normal routes.
        func marked(_ mark: UInt32?) -> EventLoopFuture<Void> {
            guard let mark else { return eventLoop.makeSucceededVoidFuture() }
            // SO_MARK (asm-generic/socket.h).
            let option = ChannelOptions.Types.SocketOption(level: .socket, name: .init(rawValue: 36))
            return setOption(option, value: Int(mark)).recover { _ in }
        }
    }
#endif
