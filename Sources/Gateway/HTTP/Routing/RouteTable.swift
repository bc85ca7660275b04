// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes

/// The routes of one listener: what is not in its table is not there.
package struct RouteTable: Sendable {
    enum Match {
        case route(ServedRoute, path: [String: String])
        /// There is the path, with these methods.
        case otherMethods([HTTPRequest.Method])
        case none
    }

    package let routes: [ServedRoute]
    /// By the number of parts, and then the first one, so that few are compared.
    private let index: [Int: [(parts: [Part], route: Int)]]

    private enum Part {
        case text(String)
        case name(String)
    }

    package init(_ routes: [ServedRoute]) {
        self.routes = routes
        var index: [Int: [(parts: [Part], route: Int)]] = [:]
        for (number, route) in routes.enumerated() {
            let parts = Self.split(route.description.path).map { part -> Part in
                part.hasPrefix("{") ? .name(String(part.dropFirst().dropLast())) : .text(String(part))
            }
            index[parts.count, default: []].append((parts, number))
        }
        self.index = index
    }

    private static func split(_ path: String) -> [Substring] {
        path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    }

    /// Finds the route of a path, which is taken as it is: no decoding, no second spelling.
    func match(_ wanted: HTTPRequest.Method, _ path: String) -> Match {
        guard path.hasPrefix("/") else { return .none }
        let parts = Self.split(path)
        var others: [HTTPRequest.Method] = []
        for candidate in index[parts.count] ?? [] {
            guard let values = Self.values(candidate.parts, parts) else { continue }
            let route = routes[candidate.route]
            let method = route.description.method
            if method == wanted { return .route(route, path: values) }
            others.append(method)
        }
        return others.isEmpty ? .none : .otherMethods(others)
    }

    private static func values(_ template: [Part], _ parts: [Substring]) -> [String: String]? {
        var values: [String: String] = [:]
        for (wanted, part) in zip(template, parts) {
            switch wanted {
            case .text(let text): guard part == text else { return nil }
            case .name(let name): values[name] = String(part)
            }
        }
        return values
    }
}
