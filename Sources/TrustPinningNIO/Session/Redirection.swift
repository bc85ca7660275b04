// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOHTTP1

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What an answer of the 3xx kind means for a request (RFC 9110, section 15.4).
struct Redirection {
    private let rule: PinnedSession.Redirects
    private let tls: PinnedTLS

    init(_ rule: PinnedSession.Redirects, _ tls: PinnedTLS) {
        self.rule = rule
        self.tls = tls
    }

    /// The request to send instead.
    struct Next {
        var request: PinnedRequest
        /// How many redirects there may be in a row.
        var limit: Int
    }

    /// Fields that say who the user is, and are for one host.
    private static let personal = ["authorization", "cookie", "proxy-authorization"]
    /// Fields about a body that is no longer sent.
    private static let ofBody = ["content-type", "content-encoding", "content-language", "content-location"]

    /// The request that follows the answer, or nil where the answer is the last.
    /// - Throws: when it leads to where it may not.
    func next(after request: PinnedRequest, _ response: PinnedResponse) throws(PinnedSessionError) -> Next? {
        let (mayCross, limit): (Bool, Int)
        switch rule {
        case .answer: return nil
        case .samePolicy(let count): (mayCross, limit) = (false, count)
        case .anyPolicy(let count): (mayCross, limit) = (true, count)
        }
        guard [301, 302, 303, 307, 308].contains(response.statusCode) else { return nil }
        guard let location = response.headers["location"].first else { return nil }
        guard let url = URL(string: location, relativeTo: request.url)?.absoluteURL else {
            throw .redirectRefused(to: Redirection.shown(location), reason: "that is no URL")
        }
        let from = try Endpoint(request.url)
        let to: Endpoint
        do {
            to = try Endpoint(url)
        } catch {
            throw .redirectRefused(to: Redirection.shown(url), reason: error.description)
        }
        guard mayCross || from.host == to.host || tls.areOfOnePolicy(from.host, to.host) else {
            throw .redirectRefused(to: Redirection.shown(url), reason: "another policy is for \(to.host)")
        }
        var next = request
        next.url = url
        if from != to { for name in Redirection.personal { next.headers.remove(name: name) } }
        let becomesGet =
            response.statusCode == 303 ? request.method != .HEAD : response.statusCode < 303 && request.method == .POST
        if becomesGet {
            next.method = .GET
            next.body = .none
            next.expectsContinue = false
            for name in Redirection.ofBody { next.headers.remove(name: name) }
        } else if !request.body.isReplayable {
            throw .redirectRefused(
                to: Redirection.shown(url), reason: "the body is a stream, which cannot be sent again")
        }
        return Next(request: next, limit: limit)
    }

    /// A place as it may be logged: without query, which may hold secrets.
    private static func shown(_ url: URL) -> String { shown(url.absoluteString) }

    private static func shown(_ text: String) -> String {
        let visible = text.prefix { $0 != "?" && $0 != "#" }.prefix(200)
        return String(visible.unicodeScalars.map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" })
    }
}
