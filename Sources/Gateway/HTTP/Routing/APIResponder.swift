// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
package import HummingbirdCore
package import Logging
package import Metrics
import NIOCore
import NetworkAddresses
package import Provisioning
import Synchronization
import TunnelSystem

/// Answers the requests of one listener: finds the route, who asks, and the body; calls the route; says what went wrong.
///
/// Nothing of a request is logged but its method, its route's path as the table has it, and where it came from.
package final class APIResponder: HTTPAnswering {
    package let name: String
    private let table: RouteTable
    private let service: GatewayService
    /// Users whose processes may use the Unix socket; nil where this is another kind of listener.
    private let socketUsers: Set<UInt32>?
    private let metrics: any MetricsFactory
    private let logger: Logger
    private let refusals = Mutex(BoundedLog(most: 20))

    /// - Parameters:
    ///   - name: what the listener is called in metrics and the log.
    ///   - socketUsers: for the Unix socket: whose processes are a local administrator's.
    package init(
        name: String, routes: RouteTable, service: GatewayService, socketUsers: Set<UInt32>? = nil,
        metrics: any MetricsFactory, logger: Logger
    ) {
        self.name = name
        table = routes
        self.service = service
        self.socketUsers = socketUsers
        self.metrics = metrics
        self.logger = logger
    }

    // MARK: - HTTPAnswering

    package func answer(_ request: Request, from source: RequestSource, limits: HTTPLimits) async -> Response {
        let began = ContinuousClock.now
        let (path, reply) = await reply(to: request, from: source, limits)
        let labels = [("listener", name), ("route", path)]
        Timer(label: "culvert_gateway_request_seconds", dimensions: labels, factory: metrics)
            .recordNanoseconds(Int64((ContinuousClock.now - began).milliseconds * 1e6))
        Counter(
            label: "culvert_gateway_requests_total", dimensions: labels + [("status", "\(reply.status)")],
            factory: metrics
        ).increment()
        return response(reply)
    }

    package func refused(by listener: String, _ source: RequestSource, _ code: ProblemDetails.Code) {
        note(code.rawValue, "a connection", source)
    }

    private func note(_ code: String, _ what: String, _ source: RequestSource) {
        Counter(
            label: "culvert_gateway_refusals_total", dimensions: [("listener", name), ("code", code)], factory: metrics
        ).increment()
        let now = (ContinuousClock.now - Self.origin).milliseconds * 1e6
        let lines = refusals.withLock {
            $0.lines("\(name): \(what) from \(source.text) refused: \(code)", at: Int64(now))
        }
        for line in lines { logger.notice("\(line)") }
    }

    private static let origin = ContinuousClock.now

    // MARK: - Steps

    private func reply(
        to request: Request, from source: RequestSource, _ limits: HTTPLimits
    ) async -> (path: String, APIReply) {
        switch table.match(request.method, request.uri.path) {
        case .none:
            note(ProblemDetails.Code.noSuchPath.rawValue, "a request", source)
            return ("none", reply(ProblemDetails(.noSuchPath)))
        case .otherMethods(let methods):
            var reply = reply(ProblemDetails(.methodNotAllowed))
            reply.headers.append((.allow, methods.map(\.rawValue).sorted().joined(separator: ", ")))
            note(ProblemDetails.Code.methodNotAllowed.rawValue, "a request", source)
            return ("none", reply)
        case .route(let served, let values):
            let route = served.description
            do throws(Refusal) {
                return (route.path, try await answer(request, served, values, source, limits))
            } catch {
                note(
                    error.problem.code?.rawValue ?? "\(error.problem.status)", "\(route.method) \(route.path)", source)
                var reply = reply(error.problem)
                if let seconds = error.retryAfter { reply.headers.append((.retryAfter, "\(seconds)")) }
                if error.problem.status == 401 { reply.headers.append((.wwwAuthenticate, "Bearer")) }
                return (route.path, reply)
            }
        }
    }

    private struct Refusal: Error {
        var problem: ProblemDetails
        var retryAfter: Int?

        init(_ problem: ProblemDetails) { self.problem = problem }

        init(_ error: GatewayError) {
            problem = error.problem
            retryAfter = error.retryAfter
        }
    }

    private func answer(
        _ request: Request, _ served: ServedRoute, _ values: [String: String], _ source: RequestSource,
        _ limits: HTTPLimits
    ) async throws(Refusal) -> APIReply {
        let route = served.description
        let (caller, bearer) = try await caller(request, route, source)
        let read: APIRequest
        do throws(GatewayError) {
            read = APIRequest(
                caller: caller, source: source, bearer: bearer, path: values,
                query: try RequestFields.query(request.uri.query, route.parameters.filter { $0.place == .query }),
                creationKey: try RequestFields.creationKey(request.headers),
                versions: try RequestFields.versions(request.headers), body: [])
        } catch {
            throw Refusal(error)
        }
        var complete = read
        complete.body = try await body(request, route, limits)
        let asked = complete
        // What is worked at for too long goes on, but nobody waits for it.
        let outcome = await withDeadline(limits.work, clock: ContinuousClock()) {
            () -> Result<APIReply, GatewayError> in
            do throws(GatewayError) { return .success(try await served.answer(asked)) } catch { return .failure(error) }
        }
        switch outcome {
        case .finished(.success(let reply)): return reply
        case .finished(.failure(let error)):
            if case .unavailable(let reason) = error {
                service.logFailure("\(route.method) \(route.path): \(reason)")
            }
            throw Refusal(error)
        case .timedOut: throw Refusal(ProblemDetails(.timedOut))
        case .cancelled: throw Refusal(ProblemDetails(.unavailable))
        }
    }

    /// Who asks. The one place where a listener looks at credentials.
    private func caller(
        _ request: Request, _ route: RouteDescription, _ source: RequestSource
    ) async throws(Refusal) -> (Caller, String?) {
        do throws(GatewayError) {
            if let socketUsers {
                guard case .process(let user) = source, socketUsers.contains(user) else { throw .forbidden }
                return (try Self.permitted(.local(user), route), nil)
            }
            let address = source.address ?? .v4(0)
            switch route.access {
            case .open, .addKey: return (.nobody, nil)
            case .invitation:
                guard let bearer = try RequestFields.bearer(request.headers) else { throw .unauthorized }
                return (.nobody, bearer)
            case .localRead where source.isLocal && !request.headers.contains(.authorization) && isOfThisHost(request):
                return (.gateway, nil)
            case .device, .read, .manage, .localRead:
                let bearer = try RequestFields.bearer(request.headers)
                let caller = try await service.caller(bearer: bearer, from: address)
                return (try Self.permitted(caller, route), bearer)
            }
        } catch {
            throw Refusal(error)
        }
    }

    /// Refuses whom the service would refuse, before anything more is read.
    private static func permitted(_ caller: Caller, _ route: RouteDescription) throws(GatewayError) -> Caller {
        if let permission = route.access.permission { try caller.check(permission) }
        return caller
    }

    /// Whether the request names this host by an address of it: a page in a browser that was led here by a name of its own
    /// does not.
    private func isOfThisHost(_ request: Request) -> Bool {
        guard let authority = request.head.authority else { return false }
        var host = authority[...]
        if let colon = host.lastIndex(of: ":"), host[host.index(after: colon)...].allSatisfy(\.isNumber) {
            host = host[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        return host == "localhost" || (try? IPAddress(host))?.isLoopback == true
    }

    private func body(_ request: Request, _ route: RouteDescription, _ limits: HTTPLimits) async throws(Refusal)
        -> [UInt8]
    {
        let length = request.headers[.contentLength].flatMap { Int($0) }
        guard route.body != nil else {
            // Some clients send an empty one.
            guard length ?? 0 == 0, !request.headers.contains(.transferEncoding) else {
                throw Refusal(ProblemDetails(.requestInvalid, detail: "there is a body, and none is taken"))
            }
            return []
        }
        guard length ?? 0 <= limits.body else { throw Refusal(ProblemDetails(.bodyTooLarge)) }
        guard RequestFields.isJSON(request.headers) else { throw Refusal(ProblemDetails(.mediaTypeUnsupported)) }
        do {
            return Array(buffer: try await request.body.collect(upTo: limits.body))
        } catch is NIOTooManyBytesError {
            throw Refusal(ProblemDetails(.bodyTooLarge))
        } catch {
            throw Refusal(ProblemDetails(.malformedRequest, detail: "the body is not as HTTP has it"))
        }
    }

    // MARK: - Answers

    private func reply(_ problem: ProblemDetails) -> APIReply {
        APIReply(problem.status, mediaType: ProblemDetails.mediaType, body: problem.body)
    }

    private func response(_ reply: APIReply) -> Response {
        var headers: HTTPFields = [
            .cacheControl: "no-store", .xContentTypeOptions: "nosniff", .date: HTTPDate.text(.now),
        ]
        if !reply.mediaType.isEmpty { headers[.contentType] = reply.mediaType }
        for (name, value) in reply.headers { headers[name] = value }
        let body = reply.body.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: reply.body))
        return Response(status: HTTPResponse.Status(code: reply.status), headers: headers, body: body)
    }
}

extension RequestSource {
    /// For the log.
    fileprivate var text: String {
        switch self {
        case .address(let address): "\(address)"
        case .process(let user): "user \(user)"
        case .unknown: "nobody knows where"
        }
    }
}

extension Duration {
    fileprivate var milliseconds: Double {
        Double(components.seconds) * 1e3 + Double(components.attoseconds) / 1e15
    }
}
