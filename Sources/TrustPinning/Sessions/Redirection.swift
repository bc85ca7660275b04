// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Where redirects may lead. None ever leads away from `https`.
public enum RedirectRule: Sendable, Equatable {
    /// They are not followed: they are answers like others.
    case answer
    /// To hosts that the same pins are for, this many times in a row. A redirect between two
    /// hosts without pins, which system trust alone verifies, is refused.
    case samePolicy(limit: Int)
    /// To any host that has a policy which trusts it, this many times in a row. What names the user (`Authorization`,
    /// `Cookie`) is left out for another host.
    case anyPolicy(limit: Int)
}

/// What an answer of the 3xx kind means for a request (RFC 9110, section 15.4), whoever sends requests.
package struct Redirection: Sendable {
    private let rule: RedirectRule
    private let policies: PolicySet?

    /// - Parameter policies: those that say who is trusted; nil where something else says so.
    package init(_ rule: RedirectRule, policies: PolicySet?) {
        self.rule = rule
        self.policies = policies
    }

    /// How the next request differs from the last.
    package struct Next: Sendable {
        package var url: URL
        /// Fields that must not go along.
        package var droppedFields: [String]
        /// Whether the method becomes GET, and the body is left out.
        package var becomesGet: Bool
        /// How many redirects there may be in a row.
        package var limit: Int
    }

    /// Fields that say who the user is, and are for one host.
    private static let personal = ["authorization", "cookie", "proxy-authorization"]
    /// Fields about a body that is no longer sent.
    private static let ofBody = ["content-type", "content-encoding", "content-language", "content-location"]

    /// What follows an answer, or nil where the answer is the last.
    /// - Parameter isReplayable: whether the body of the request can be sent once more.
    /// - Throws: when it leads to where it may not.
    package func next(
        after url: URL, method: String, isReplayable: Bool, status: Int, location: String?
    ) throws(PinnedSessionError) -> Next? {
        let (mayCross, limit): (Bool, Int)
        switch rule {
        case .answer: return nil
        case .samePolicy(let count): (mayCross, limit) = (false, count)
        case .anyPolicy(let count): (mayCross, limit) = (true, count)
        }
        guard [301, 302, 303, 307, 308].contains(status), let location else { return nil }
        guard let target = URL(string: location, relativeTo: url)?.absoluteURL else {
            throw .redirectRefused(to: Redirection.shown(location, isURL: false), reason: "it must be a URL")
        }
        let from = try HTTPSEndpoint(url)
        let to: HTTPSEndpoint
        do {
            to = try HTTPSEndpoint(target)
        } catch {
            throw .redirectRefused(to: Redirection.shown(target), reason: error.description)
        }
        guard mayCross || from.host == to.host || policies?.areOfOnePolicy(from.host, to.host) == true else {
            throw .redirectRefused(
                to: Redirection.shown(target), reason: "the policy of \(from.host) is not for \(to.host)")
        }
        let becomesGet = status == 303 ? method != "HEAD" : status < 303 && method == "POST"
        guard becomesGet || isReplayable else {
            throw .redirectRefused(
                to: Redirection.shown(target), reason: "the body is a stream, which cannot be sent again")
        }
        return Next(
            url: target,
            droppedFields: (from != to ? Redirection.personal : []) + (becomesGet ? Redirection.ofBody : []),
            becomesGet: becomesGet, limit: limit)
    }

    /// A place as it may be logged: without user, password and query, which may hold secrets.
    private static func shown(_ url: URL) -> String { shown(url.absoluteString, isURL: true) }

    private static func shown(_ text: String, isURL: Bool) -> String {
        // In other text, a `?` or `#` before an `@` is part of a password or begins a query: there is nothing that is safe.
        if !isURL, let mark = text.lastIndex(of: "@"), text[..<mark].contains(where: { $0 == "?" || $0 == "#" }) {
            return "?"
        }
        let visible = withoutUser(text.prefix { $0 != "?" && $0 != "#" }, isURL: isURL).prefix(200)
        return String(visible.unicodeScalars.map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" })
    }

    /// Removes user name and password from a URL. Text that is not a URL, or has no host, loses all up to its last `@`,
    /// because a user name has no certain place in it.
    private static func withoutUser(_ text: Substring, isURL: Bool) -> String {
        guard isURL, let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else {
            return String(text.lastIndex(of: "@").map { text[text.index(after: $0)...] } ?? text)
        }
        let start = text.index(colon, offsetBy: 3)
        let authority = text[start...].prefix { $0 != "/" }
        guard let mark = authority.lastIndex(of: "@") else { return String(text) }
        return String(text[..<start] + text[text.index(after: mark)...])
    }
}
