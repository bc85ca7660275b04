// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import NIOCore

    extension Channel {
        /// Does nothing, because the system does not route a tunnel provider's own sockets into its tunnel.
        func marked(_ mark: UInt32?) -> EventLoopFuture<Void> { eventLoop.makeSucceededVoidFuture() }
    }
#endif
