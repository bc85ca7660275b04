// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Provisioning

/// A request of a route with its decoded body.
@dynamicMemberLookup
package struct RouteCall<Body: Sendable>: Sendable {
    let request: APIRequest
    package let body: Body

    package subscript<Value>(dynamicMember path: KeyPath<APIRequest, Value>) -> Value { request[keyPath: path] }

    /// The value of a parameter of the query; `nil` if it is missing.
    subscript(parameter: RouteDescription.Parameter) -> String? { request.query[parameter.name] }

    /// An ID in the path.
    /// - Parameter name: Its name in the path's template.
    func id(_ name: String = "id") throws(GatewayError) -> RandomID {
        guard let id = request.ids[name] else { throw .unavailable("the path of the route has no {\(name)}") }
        return id
    }

    /// The ID in a parameter of the query; `nil` if it is missing.
    func id(_ parameter: RouteDescription.Parameter) throws(GatewayError) -> RandomID? {
        guard let text = self[parameter] else { return nil }
        guard let id = RandomID(text) else {
            throw .invalid(field: parameter.name, problem: "must be an ID of 26 characters")
        }
        return id
    }

    /// The requested page of a list.
    func page() throws(GatewayError) -> PageRequest {
        var page = PageRequest(after: self[Paging.after])
        if let text = self[Paging.limit] {
            guard let limit = Int(text), (1...PageRequest.most).contains(limit), String(limit) == text else {
                throw .invalid(field: Paging.limit.name, problem: "must be a number from 1 to \(PageRequest.most)")
            }
            page = PageRequest(after: page.after, limit: limit)
        }
        return page
    }
}

/// The parts of a request that do not depend on its route.
package struct APIRequest: Sendable {
    /// ``Caller/nobody`` if the route needs no credential or checks it itself.
    var caller: Caller
    package var source: RequestSource
    /// The secret of the `Authorization` header, for routes that check it themselves; `nil` if the header was not read:
    /// on the Unix socket, and for routes that need no header.
    var bearer: String?
    /// The IDs in the path, by their names in its template.
    var ids: [String: RandomID]
    var query: [String: String]
    /// The key by which the gateway recognises a repeated request, which then makes nothing new. The client chooses it.
    var creationKey: String?
    /// The versions of the resource that the request may replace (`If-Match`), or `nil` for any.
    var versions: [String]?
    var body: [UInt8]

    /// The address whose failures are counted; `0.0.0.0` if the source has no address.
    var address: IPAddress { source.address ?? .v4(0) }
}
