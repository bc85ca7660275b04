// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// The invitations with which devices enrol.
package enum InvitationRoutes {
    private static let shape = ReplyShape<IssuedInvitation>("Invitation")

    package static let list = Route<Void, Page<IssuedInvitation>>(
        .get, "/v1/invitations", .read, "List invitations", reply: .page(shape))
    package static let add = Route<InvitationDraft, Created<IssuedText<IssuedInvitation>>>(
        .post, "/v1/invitations", .manage, "Make an invitation; only this reply contains its text",
        body: .complete(InvitationDraft.message, .named("InvitationDraft")),
        reply: .created(.issued("invitation", shape, "text", .text(note: "The invitation, in one line"))),
        errors: [404, 409])
    package static let revoke = Route<Void, IssuedInvitation>(
        .delete, "/v1/invitations/{id}", .manage, "Revoke an invitation", reply: .changed(shape), errors: [404, 409])
}

/// A new item with its secret as a text, which only this reply contains.
package struct IssuedText<Item: Sendable>: Sendable {
    let item: Item
    let text: String
}

extension IssuedText: CustomStringConvertible, CustomReflectable {
    /// The item without the text.
    package var description: String { "\(item)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension ReplyFormat {
    /// - Parameters:
    ///   - name: The member for the item.
    ///   - secretName: The member for the text.
    static func issued<Item>(
        _ name: String, _ shape: ReplyShape<Item>, _ secretName: String, _ schema: JSONSchema
    ) -> ReplyFormat where Reply == IssuedText<Item> {
        let object = JSONSchema.object([.init(name, shape.schema), .init(secretName, schema)])
        return .one(
            ReplyShape(object) { .object(of: [(name, shape.encode($0.item)), (secretName, .string($0.text))]) }, "")
    }
}

extension AdminRoutes {
    func registerInvitations(in list: inout RouteList) {
        list.register(InvitationRoutes.list) { try await service.invitations($0.page(), $0.caller) }
        list.register(InvitationRoutes.add) { call in
            let made = try await service.addInvitation(call.body, creationKey: call.creationKey, call.caller)
            let text = try invitations.text(made.secret, until: made.item.expiresAt)
            return Created(item: IssuedText(item: made.item, text: text), isRepetition: made.isRepetition)
        }
        list.register(InvitationRoutes.revoke) { try await service.revokeInvitation($0.id(), $0.caller) }
    }
}
