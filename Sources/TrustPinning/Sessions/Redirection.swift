// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// The rule for redirects. Only redirects to `https` URLs are followed.
public enum RedirectRule: Sendable, Equatable {
    /// Redirects are not followed, but returned as responses.
    case answer
    /// Up to `limit` redirects in a row are followed, if they are to hosts with the same pins. A redirect between two
    /// hosts without pins, which only system trust verifies, is refused.
    case samePolicy(limit: Int)
    /// Up to `limit` redirects in a row are followed, to any host that its policy trusts. Fields that identify the user
    /// (`Authorization`, `Cookie`) are removed for another host.
    case anyPolicy(limit: Int)
}

/// Computes the request that follows a 3xx response (RFC 9110, section 15.4), for any HTTP client.
package struct Redirection: Sendable {
    private let rule: RedirectRule
    private let policies: PolicySet?

    /// - Parameter policies: The policies that decide about trust, or `nil` if another object decides.
    package init(_ rule: RedirectRule, policies: PolicySet?) {
        self.rule = rule
        self.policies = policies
    }

    /// The changes for the next request.
    package struct Next: Sendable {
        package var url: URL
        /// The header fields to remove.
        package var droppedFields: [String]
        /// Whether the method becomes GET, without a body.
        package var becomesGet: Bool
        /// The maximum number of redirects in a row.
        package var limit: Int
    }

    /// The header fields that identify the user to one host.
    private static let personal = ["authorization", "cookie", "proxy-authorization"]
    /// The header fields that describe the removed body.
    private static let ofBody = ["content-type", "content-encoding", "content-language", "content-location"]

    /// Returns the changes for the next request, or `nil` if the response is final.
    /// - Parameter isReplayable: Whether the body of the request can be sent again.
    /// - Throws: `redirectRefused` if the target is not permitted.
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
        guard mayCross || from.host == to.host || policies?.haveSamePolicy(from.host, to.host) == true else {
            throw .redirectRefused(
                to: Redirection.shown(target), reason: "the policy of \(from.host) does not apply to \(to.host)")
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

    /// Returns a URL for logs, without user, password and query, which may be secret.
    private static func shown(_ url: URL) -> String { shown(url.absoluteString, isURL: true) }

    private static func shown(_ text: String, isURL: Bool) -> String {
        // If the text is not a URL, a `?` or `#` before an `@` may be part of a password, so no part of the text can be
        // shown.
        if !isURL, let mark = text.lastIndex(of: "@"), text[..<mark].contains(where: { $0 == "?" || $0 == "#" }) {
            return "?"
        }
        let visible = withoutUser(text.prefix { $0 != "?" && $0 != "#" }, isURL: isURL).prefix(200)
        return String(visible.unicodeScalars.map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" })
    }

    /// Removes the user name and password of a URL. From other text, and from URLs without a host, removes everything
    /// up to the last `@`, because the user name may be anywhere before it.
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
