// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) || os(Android)
    import NIOCore

    extension Channel {
        /// Marks the socket, by which routes and firewalls know its packets. Without the privilege it stays as it is: its packets
        /// then go the way that everybody's go.
        func marked(_ mark: UInt32?) -> EventLoopFuture<Void> {
            guard let mark else { return eventLoop.makeSucceededVoidFuture() }
            // SO_MARK (asm-generic/socket.h).
            let option = ChannelOptions.Types.SocketOption(level: .socket, name: .init(rawValue: 36))
            return setOption(option, value: Int(mark)).recover { _ in }
        }
    }
#endif
