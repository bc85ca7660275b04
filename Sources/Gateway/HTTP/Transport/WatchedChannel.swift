// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Hummingbird's channel for HTTP/1.1 with a ``RequestWatch`` behind its decoder.
struct WatchedChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    private let base: HTTP1Channel
    private let watch: @Sendable () -> RequestWatch

    init(
        limits: HTTPLimits, responder: @escaping HTTPChannelHandler.Responder,
        watch: @escaping @Sendable () -> RequestWatch
    ) {
        var configuration = HTTP1Channel.Configuration()
        configuration.httpDecoder = HTTP1Channel.Configuration.DecoderConfiguration(
            maxHeaderFieldSize: limits.headerField, maxHeaderListSize: limits.headerList,
            maxHeaderFieldCount: limits.headerCount)
        base = HTTP1Channel(responder: responder, configuration: configuration)
        self.watch = watch
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(watch(), position: .after(decoder))
            return value
        }
    }

    func handle(value: Value, logger: Logger) async {
        await base.handle(value: value, logger: logger)
    }
}
