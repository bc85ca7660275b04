// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import HTTPTypes
import NetworkAddresses
package import Provisioning
import TunnelSystem

/// One method of one path: what it takes, who may ask, what it answers. Router and document are made of the same list.
package struct APIRoute: Sendable {
    /// Who may ask. ``Caller`` is checked by the service; here it says which credential is looked for.
    package enum Access: String, Sendable, CaseIterable {
        /// Anybody.
        case open
        /// Whoever has an invitation or a token of scope `enrol`.
        case invitation
        /// A device, with its credential.
        case device
        /// A token of scope `readOnly` or `admin`, or the socket.
        case read
        /// A token of scope `admin`, or the socket.
        case manage
        /// As ``read``, or anybody of this host.
        case localRead
    }

    package enum Place: Sendable { case query, header }

    /// A parameter beside the path's.
    package struct Parameter: Sendable {
        package var name: String
        package var place = Place.query
        package var schema: JSONSchema
        package var isRequired = false
        package var note: String
    }

    /// One answer that a route gives by itself.
    package struct Reply: Sendable {
        package var status: Int
        /// Nil for no body.
        package var schema: JSONSchema?
        package var mediaType = "application/json"
        package var note: String
    }

    package typealias Handler = @Sendable (APIRequest) async throws(GatewayError) -> APIReply

    package var method: HTTPRequest.Method
    /// As in `/v1/users/{id}`.
    package var path: String
    package var access: Access
    package var summary: String
    package var parameters: [Parameter]
    /// The body that it takes; nil for none.
    package var body: JSONSchema?
    package var replies: [Reply]
    /// What it refuses with, beside what every route may.
    package var problems: [Int]
    package var handler: Handler

    package init(
        _ method: HTTPRequest.Method, _ path: String, _ access: Access, _ summary: String,
        parameters: [Parameter] = [], body: JSONSchema? = nil, replies: [Reply], problems: [Int] = [],
        handler: @escaping Handler
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.summary = summary
        self.parameters = parameters
        self.body = body
        self.replies = replies
        self.problems = problems
        self.handler = handler
    }

    /// The statuses that it refuses with.
    package var refusals: [Int] {
        var all = Set(problems)
        if access != .open { all.formUnion([401, 403, 429]) }
        if body != nil { all.formUnion([400, 408, 413, 415]) }
        if !parameters.isEmpty || path.contains("{") { all.insert(400) }
        // A query where none is taken, and a gateway that is not well.
        all.formUnion([400, 500, 503])
        return all.sorted()
    }
}

/// One request, read as far as all of them are.
package struct APIRequest: Sendable {
    /// Nil where the route asks for no credential, or judges it itself.
    var asker: Caller?
    package var source: RequestSource
    /// The secret that was shown; nil for none. For routes that judge it themselves.
    var bearer: String?
    /// What stands in the path where the template has names.
    var path: [String: String]
    var query: [String: String]
    /// Made up by whoever asks, so that a repetition makes nothing new.
    var creationKey: String?
    /// The versions that the caller permits to replace (`If-Match`), or `nil` for any.
    var versions: [String]?
    var body: [UInt8]

    /// Who asks.
    var caller: Caller {
        get throws(GatewayError) {
            guard let asker else { throw .unauthorized }
            return asker
        }
    }

    /// Where the request came from, as failures are counted.
    var address: IPAddress { source.address ?? .v4(0) }

    /// The id in the path.
    func id(_ what: String) throws(GatewayError) -> RandomID {
        // What is no id is the id of nothing.
        guard let id = RandomID(path["id"] ?? "") else { throw .notFound(what) }
        return id
    }

    /// The id that a parameter of the query has; nil without it.
    func queriedID(_ name: String) throws(GatewayError) -> RandomID? {
        guard let text = query[name] else { return nil }
        guard let id = RandomID(text) else { throw .invalid(field: name, problem: "it is no id of 26 characters") }
        return id
    }

    /// The part of a list that is asked for.
    func page() throws(GatewayError) -> PageRequest {
        var page = PageRequest(after: query["after"])
        if let text = query["limit"] {
            guard let limit = Int(text), (1...PageRequest.most).contains(limit), String(limit) == text else {
                throw .invalid(field: "limit", problem: "it is 1 to \(PageRequest.most)")
            }
            page = PageRequest(after: page.after, limit: limit)
        }
        return page
    }

    /// Reads the body.
    func read<Value>(
        _ value: (JSON) throws(ContractError) -> Value
    ) throws(GatewayError) -> Value {
        do throws(ContractError) {
            return try value(try JSON.read(contract: body))
        } catch {
            throw GatewayError(error)
        }
    }
}

/// What a route answers with.
package struct APIReply: Sendable {
    package var status: Int
    package var mediaType: String
    package var body: [UInt8]
    package var headers: [(HTTPField.Name, String)] = []

    init(_ status: Int, mediaType: String, body: [UInt8]) {
        self.status = status
        self.mediaType = mediaType
        self.body = body
    }

    init(_ status: Int = 200, _ json: JSON) {
        self.init(status, mediaType: "application/json", body: json.bytes)
    }

    init(_ status: Int = 200, _ message: some ContractMessage) {
        self.init(status, mediaType: "application/json", body: message.body)
    }

    /// 204.
    static let empty = APIReply(204, mediaType: "", body: [])
}
