// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// Tokens of the API.
package enum TokenRoutes {
    private static let shape = ReplyShape<Token>("Token", first: "name")

    package static let list = Route<Void, Page<Token>>(
        .get, "/v1/tokens", .read, "List tokens", reply: .page(shape))
    package static let add = Route<TokenDraft, Created<IssuedText<Token>>>(
        .post, "/v1/tokens", .manage, "Make a token; only this reply contains its secret",
        body: .complete(TokenDraft.message, .named("TokenDraft")),
        reply: .created(.issued("token", shape, "secret", .text())), errors: [404, 409])
    package static let revoke = Route<Void, Token>(
        .delete, "/v1/tokens/{id}", .manage, "Revoke a token", reply: .changed(shape), errors: [404])
}

extension AdminRoutes {
    func registerTokens(in list: inout RouteList) {
        list.register(TokenRoutes.list) { try await service.tokens($0.page(), $0.caller) }
        list.register(TokenRoutes.add) { call in
            let made = try await service.addToken(call.body, creationKey: call.creationKey, call.caller)
            return Created(
                item: IssuedText(item: made.item, text: made.secret.exportedText), isRepetition: made.isRepetition)
        }
        list.register(TokenRoutes.revoke) { try await service.revokeToken($0.id(), $0.caller) }
    }
}
