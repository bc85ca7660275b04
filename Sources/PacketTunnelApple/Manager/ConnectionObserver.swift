// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkExtension

/// Receives the system's notifications about one connection, until it is released.
final class ConnectionObserver: @unchecked Sendable {
    /// "Instances of this class are thread safe", says the system's documentation of the manager, whose connection this is.
    private final class Observed: @unchecked Sendable {
        weak var connection: NEVPNConnection?
        init(_ connection: NEVPNConnection) { self.connection = connection }
    }

    private let token: any NSObjectProtocol

    /// - Parameter handler: called with the status that the connection has when the system posts a notification.
    init(_ connection: NEVPNConnection, _ handler: @escaping @Sendable (NEVPNStatus) -> Void) {
        let observed = Observed(connection)
        token = NotificationCenter.default.addObserver(
            forName: .NEVPNStatusDidChange, object: connection, queue: nil
        ) { _ in
            if let connection = observed.connection { handler(connection.status) }
        }
    }

    deinit { NotificationCenter.default.removeObserver(token) }
}
