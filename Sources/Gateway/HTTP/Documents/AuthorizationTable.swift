// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The table of the callers that each route permits, for `docs/authorization.md`.
package struct AuthorizationTable: Sendable {
    /// The routes of one listener.
    package struct Listener: Sendable {
        package var name: String
        package var routes: [RouteDescription]
        /// Whether the Unix socket serves the same routes.
        package var isOnSocket: Bool

        package init(_ name: String, _ routes: RouteList, isOnSocket: Bool = false) {
            self.name = name
            self.routes = routes.routes.map(\.description)
            self.isOnSocket = isOnSocket
        }
    }

    package var listeners: [Listener]

    package init(_ listeners: [Listener]) { self.listeners = listeners }

    /// The content of the page, in Markdown.
    package var markdown: String {
        """
        # Permissions of the gateway's API

        This page lists the callers of each route. It is generated from the routes: `scripts/contract --update` writes it,
        and a test compares it with the code.

        - A device can list and remove only devices of the same user. A token of scope `enrol` or `addKey` makes devices of one
          user only.
        - Other callers get status 401 or 403, or 400 if the request is not valid. A caller with many failures gets 429.
        - The socket is the Unix socket of administrators. It serves root and the gateway's user only, on every route of its
          list, and ignores tokens. "Everyone" does not include other users of the socket.
        - Without a credential, `/metrics` needs the setting `metricsNeedToken` to be false, and a `Host` that is a
          loopback address or `localhost`.

        """ + listeners.map(section).joined()
    }

    private func section(_ listener: Listener) -> String {
        let rows = listener.routes.map { route in
            let callers = Self.callers(route, isOnSocket: listener.isOnSocket)
            return "| `\(route.methodName) \(route.path)` | \(callers) | \(route.summary) |\n"
        }
        return """

            ## \(listener.name)

            | Route | Callers | Purpose |
            | --- | --- | --- |

            """ + rows.joined()
    }

    private static func callers(_ route: RouteDescription, isOnSocket: Bool) -> String {
        if route.access == .open { return "everyone" }
        let roles = CallerRole.allCases.filter(route.access.roles.contains).map(\.rawValue)
        return (roles + (isOnSocket ? ["socket"] : [])).joined(separator: ", ")
    }
}
