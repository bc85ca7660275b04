// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import NIOCore

    extension Channel {
        /// Does nothing, since a tunnel provider's own sockets are not routed into its tunnel.
        func marked(_ mark: UInt32?) -> EventLoopFuture<Void> { eventLoop.makeSucceededVoidFuture() }
    }
#endif
