// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import TunnelSystem

// The replies of requests that have ended access, when the database refuses writes.

extension APIRoute.Reply {
    /// The reply of a removal that is in effect and not saved.
    static let unsavedRemoval = APIRoute.Reply(
        status: 202,
        schema: .object([.init("isDone", .flag), .init("isSaved", .flag), .init("detail", .text())]),
        note: "The access has ended, and the database refuses writes: the gateway saves it as soon as possible")

    /// The reply of a change that is in effect and not saved.
    static func unsavedUpdate(_ name: String) -> APIRoute.Reply {
        APIRoute.Reply(
            status: 202, schema: .named(name),
            note: "The access has ended, and the database refuses writes: the gateway saves it as soon as possible")
    }
}

extension APIReply {
    /// 204, or 202 with the words for a removal that is not saved.
    static func removal(isSaved: Bool) -> APIReply {
        guard !isSaved else { return .empty }
        return APIReply(
            202,
            .members([
                "isDone": .bool(true), "isSaved": .bool(false),
                "detail": .string(
                    "access has ended, and that is not saved yet: the database refuses writes, and a restart would undo it"
                ),
            ]))
    }
}
