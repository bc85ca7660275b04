// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import HTTPTypes
import PacketTunnel
import Provisioning
package import TunnelSystem

/// One method of one path: the callers that it permits, and the types and JSON forms of its body and its reply.
///
/// A route is only a description. The server registers a handler for it (``RouteList``), the command line sends
/// requests for it, and the OpenAPI document and the authorisation table are generated from it. A handler whose types
/// differ from the route's does not compile.
package struct Route<Body: Sendable, Reply: Sendable>: Sendable {
    package let description: RouteDescription
    package let body: BodyFormat<Body>
    package let reply: ReplyFormat<Reply>

    /// - Parameters:
    ///   - path: A template such as `/v1/users/{id}`.
    ///   - errors: The error statuses of this route, in addition to those of every route.
    package init(
        _ method: HTTPRequest.Method, _ path: String, _ access: RouteAccess, _ summary: String, body: BodyFormat<Body>,
        reply: ReplyFormat<Reply>, parameters: [RouteDescription.Parameter] = [], errors: [Int] = []
    ) {
        self.body = body
        self.reply = reply
        description = RouteDescription(
            method: method, path: path, access: access, summary: summary,
            parameters: reply.parameters + parameters, body: body.schema, replies: reply.documented, errors: errors)
    }

    /// A route whose requests have no body.
    package init(
        _ method: HTTPRequest.Method, _ path: String, _ access: RouteAccess, _ summary: String,
        reply: ReplyFormat<Reply>, parameters: [RouteDescription.Parameter] = [], errors: [Int] = []
    ) where Body == Void {
        self.init(method, path, access, summary, body: .none, reply: reply, parameters: parameters, errors: errors)
    }
}

/// The JSON form of a request's body.
package struct BodyFormat<Body: Sendable>: Sendable {
    typealias Decode = @Sendable (JSON) throws(ContractError) -> Body

    /// `nil` if requests have no body.
    let schema: JSONSchema?
    let decode: Decode
    private let encoded: @Sendable (Body) -> JSON

    init(_ schema: JSONSchema?, decode: @escaping Decode, encode: @escaping @Sendable (Body) -> JSON) {
        self.schema = schema
        self.decode = decode
        encoded = encode
    }

    /// The JSON that a client sends; `nil` if requests have no body.
    package func encode(_ body: Body) -> JSON? { schema == nil ? nil : encoded(body) }

    /// Checks a body as the gateway does when it reads a request.
    /// - Throws: ``GatewayError/invalid(field:problem:)`` for the first member that is not valid.
    package func check(_ body: Body) throws(GatewayError) {
        guard let json = encode(body) else { return }
        do throws(ContractError) { _ = try decode(json) } catch { throw GatewayError(error) }
    }

    /// Decodes the bytes of a request.
    func read(_ bytes: [UInt8]) throws(GatewayError) -> Body {
        do throws(ContractError) {
            return try decode(schema == nil ? .null : try JSON.read(contract: bytes))
        } catch {
            throw GatewayError(error)
        }
    }

    /// The members of a creation or of a patch.
    /// - Parameter name: The name of the schema in the OpenAPI document.
    static func form<Root: Declared>(_ form: MessageForm, _ name: String) -> BodyFormat
    where Body == FieldValues<Root> {
        BodyFormat(.named(name)) { (json) throws(ContractError) in
            try Root.message.decode(json, form)
        } encode: {
            $0.json
        }
    }
}

extension BodyFormat {
    /// The format of a body whose members are all decoded into one value.
    /// - Parameter schema: A reference to its schema in the OpenAPI document; `nil` for the schema itself.
    static func complete(_ message: CompleteMessage<Body>, _ schema: JSONSchema? = nil) -> BodyFormat {
        BodyFormat(schema ?? message.schema(.create)) { (json) throws(ContractError) in
            try message.decode(json, .create)
        } encode: {
            message.encode($0)
        }
    }
}

extension BodyFormat where Body == Void {
    static var none: BodyFormat { BodyFormat(nil, decode: { _ in }, encode: { _ in .null }) }
}

/// A route with its handler.
package struct ServedRoute: Sendable {
    package let description: RouteDescription
    let answer: @Sendable (APIRequest) async throws(GatewayError) -> APIReply
}

/// The routes of a listener, in the order of its document.
package struct RouteList: Sendable {
    package private(set) var routes: [ServedRoute] = []

    package init() {}

    /// Adds a route.
    /// - Parameter handler: Answers a request. An error that is not a ``GatewayError`` is logged, and the client gets
    ///   ``GatewayError/unavailable(_:)``.
    package mutating func register<Body, Reply>(
        _ route: Route<Body, Reply>, _ handler: @escaping @Sendable (RouteCall<Body>) async throws -> Reply
    ) {
        routes.append(
            ServedRoute(description: route.description) { (request) async throws(GatewayError) in
                let call = RouteCall(request: request, body: try route.body.read(request.body))
                let reply: Reply
                do { reply = try await handler(call) } catch let error as GatewayError {
                    throw error
                } catch let error as ContractError {
                    throw GatewayError(error)
                } catch {
                    throw .unavailable("\(error)")
                }
                return route.reply.encode(reply)
            })
    }
}
