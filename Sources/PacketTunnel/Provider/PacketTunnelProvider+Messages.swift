// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// An app's own messages to any provider, such as those of this package.
extension PacketTunnelProvider {
    /// Answers messages of this type with `handler`, which must not retain the provider. A host's `makeProvider` adds
    /// handlers in this way, because each start has a new provider.
    ///
    /// The provider must declare ``router`` as a constant: `let router = MessageRouter()`.
    /// - Returns: The provider.
    @discardableResult
    public func answer<Message: TunnelMessage>(
        _ type: Message.Type, with handler: @escaping @Sendable (Message) async throws -> Message.Reply
    ) -> Self {
        constantRouter.on(type, handler)
        return self
    }

    /// Answers values of any type with `handler`, which must not retain the provider.
    /// - Returns: The provider.
    @discardableResult
    public func answer<Message: Codable & Sendable, Reply: Codable & Sendable>(
        _ type: Message.Type, replying reply: Reply.Type,
        with handler: @escaping @Sendable (Message) async throws -> Reply
    ) -> Self {
        constantRouter.on(type, replying: reply, handler)
        return self
    }

    /// Answers subscriptions of this type with the elements that `handler` sends to the sink until it returns or throws.
    /// - Returns: The provider.
    @discardableResult
    public func answer<Subscription: TunnelSubscription>(
        _ type: Subscription.Type,
        with handler: @escaping @Sendable (Subscription, SubscriptionSink<Subscription.Element>) async throws -> Void
    ) -> Self {
        constantRouter.on(type, handler)
        return self
    }

    /// The provider's router. A provider without one would lose the handler.
    private var constantRouter: MessageRouter {
        let router = router
        precondition(router === self.router, "\(Self.self) must declare 'router' as a constant")
        return router
    }
}
