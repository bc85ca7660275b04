// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import TunnelSystem

/// The JSON form of a value in replies, and its columns in the command line's tables.
package struct ReplyShape<Value: Sendable>: Sendable {
    package typealias Columns = [(title: String, member: String)]

    let schema: JSONSchema
    let columns: Columns
    let encode: @Sendable (Value) -> JSON

    init(_ schema: JSONSchema, columns: Columns = [], encode: @escaping @Sendable (Value) -> JSON) {
        self.schema = schema
        self.columns = columns
        self.encode = encode
    }
}

extension ReplyShape where Value: Declared {
    /// The shape of a declared type.
    /// - Parameters:
    ///   - name: The name of the schema in the OpenAPI document.
    ///   - first: The member of the first column.
    init(_ name: String, first: String? = nil) {
        self.init(.named(name), columns: Value.message.columns(first: first)) { Value.message.encode($0) }
    }
}

/// The successful replies of a route.
package struct ReplyFormat<Reply: Sendable>: Sendable {
    let documented: [RouteDescription.Reply]
    /// The parameters of requests that get this kind of reply, such as those for a page of a list.
    let parameters: [RouteDescription.Parameter]
    /// The columns of the items of a list.
    package let columns: [(title: String, member: String)]
    let encode: @Sendable (Reply) -> APIReply

    init(
        _ documented: [RouteDescription.Reply], parameters: [RouteDescription.Parameter] = [],
        columns: [(title: String, member: String)] = [], encode: @escaping @Sendable (Reply) -> APIReply
    ) {
        self.documented = documented
        self.parameters = parameters
        self.columns = columns
        self.encode = encode
    }
}

/// The parameters of lists.
package enum Paging {
    package static let limit = RouteDescription.Parameter(
        "limit", .integer(1...Int64(PageRequest.most)), "The largest number of items on the page")
    package static let after = RouteDescription.Parameter(
        "after", .line(1...256), "The value of `next` in the previous page")
}

extension ReplyFormat {
    /// 200 with one value.
    static func one(_ shape: ReplyShape<Reply>, _ note: String) -> ReplyFormat {
        ReplyFormat([.init(status: 200, schema: shape.schema, note: note)]) { APIReply(200, shape.encode($0)) }
    }

    /// 200 with a message of the device contract.
    static func message(_ schema: JSONSchema, _ note: String) -> ReplyFormat where Reply: ContractMessage {
        ReplyFormat([.init(status: 200, schema: schema, note: note)]) {
            APIReply(200, mediaType: "application/json", body: $0.body)
        }
    }

    /// 200 with one page of a list.
    static func page<Item>(_ shape: ReplyShape<Item>) -> ReplyFormat where Reply == Page<Item> {
        let schema = JSONSchema.object([
            .init("items", .list(of: shape.schema)),
            .init("next", .text(), isRequired: false, note: "The value of `after` for the next page"),
        ])
        return ReplyFormat(
            [.init(status: 200, schema: schema, note: "A page")], parameters: [Paging.limit, Paging.after],
            columns: shape.columns
        ) { page in
            let items = [("items", JSON.array(page.items.map(shape.encode)))]
            return APIReply(200, .object(of: items + (page.next.map { [("next", .string($0))] } ?? [])))
        }
    }

    /// 201 for a new value, and 200 for a value that an earlier request with the same key made.
    static func created<Item>(_ shape: ReplyShape<Item>) -> ReplyFormat where Reply == Created<Item> {
        created(.one(shape, ""))
    }

    /// Like ``created(_:)``, with another format of the value.
    static func created<Item>(
        _ item: ReplyFormat<Item>, notes: (new: String, repeated: String)? = nil,
        parameters: [RouteDescription.Parameter] = [creationKey]
    ) -> ReplyFormat where Reply == Created<Item> {
        let (new, repeated) = notes ?? ("The new resource", "The resource; an earlier request with this key made it")
        let schema = item.documented.first?.schema
        return ReplyFormat(
            [.init(status: 201, schema: schema, note: new), .init(status: 200, schema: schema, note: repeated)],
            parameters: parameters
        ) { created in
            var reply = item.encode(created.item)
            if !created.isRepetition { reply.status = 201 }
            return reply
        }
    }

    static var creationKey: RouteDescription.Parameter {
        RouteDescription.Parameter(
            "Idempotency-Key", in: .header, .text(pattern: "^[!-~]{1,128}$", length: 1...128),
            "A text that the client chooses; repeating the request with the same key makes nothing new")
    }

    /// 200 with bytes that are not JSON.
    /// - Parameter documentedAs: The media type in the OpenAPI document, if it differs.
    static func bytes(_ mediaType: String, documentedAs name: String? = nil, _ note: String) -> ReplyFormat
    where Reply == [UInt8] {
        ReplyFormat([.init(status: 200, schema: .text(), mediaType: name ?? mediaType, note: note)]) {
            APIReply(200, mediaType: mediaType, body: $0)
        }
    }

    /// 200 with bytes that are sent while they are made, in chunked transfer coding.
    static func stream(_ mediaType: String, _ note: String) -> ReplyFormat where Reply == ReplyStream {
        ReplyFormat([.init(status: 200, schema: .text(), mediaType: mediaType, note: note)]) {
            APIReply(200, mediaType: mediaType, stream: $0)
        }
    }

    /// 204.
    static func none(_ note: String) -> ReplyFormat where Reply == Void {
        ReplyFormat([.init(status: 204, note: note)]) { _ in .empty }
    }

    fileprivate static var unsavedNote: String {
        "The access has ended but is not saved, because the database refuses writes; the gateway will retry"
    }
}

extension ReplyFormat where Reply == Bool {
    /// 204 for a saved removal; 202 for a removal that is in effect but not saved, because the database refuses writes.
    static var removal: ReplyFormat {
        let unsaved = JSONSchema.object([.init("isDone", .flag), .init("isSaved", .flag), .init("detail", .text())])
        return ReplyFormat([
            .init(status: 204, note: "The resource was removed"),
            .init(status: 202, schema: unsaved, note: unsavedNote),
        ]) { isSaved in
            guard !isSaved else { return .empty }
            return APIReply(
                202,
                [
                    "isDone": true, "isSaved": false,
                    "detail":
                        "the access has ended but is not saved yet, because the database refuses writes; a restart would undo it",
                ])
        }
    }
}

/// A resource whose access can end before the store has saved the end.
package protocol AccessResource: Sendable {
    /// Whether the store has this state.
    var isSaved: Bool { get }
}

extension User: AccessResource {}
extension Device: AccessResource {}
extension Token: AccessResource {}
extension IssuedInvitation: AccessResource {}

extension ReplyFormat where Reply: AccessResource {
    /// 200 with the changed value, and 202 if the change is in effect but not saved, because the database refuses
    /// writes.
    static func changed(_ shape: ReplyShape<Reply>) -> ReplyFormat {
        ReplyFormat([
            .init(status: 200, schema: shape.schema, note: "The changed resource"),
            .init(status: 202, schema: shape.schema, note: unsavedNote),
        ]) { APIReply($0.isSaved ? 200 : 202, shape.encode($0)) }
    }
}
