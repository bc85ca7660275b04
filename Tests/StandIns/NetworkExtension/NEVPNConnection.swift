// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation
import Synchronization

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nevpnconnection
// https://developer.apple.com/documentation/networkextension/netunnelprovidersession
// The behaviour of the system is in `StandInSystem`.

open class NEVPNConnection: NSObject {
    private let held: Mutex<StandInSession>
    var session: StandInSession { held.withLock { $0 } }

    init(_ session: StandInSession) {
        held = Mutex(session)
        super.init()
        session.attach(self)
    }

    /// Several manager objects may describe one configuration, and share its session.
    func move(to session: StandInSession) {
        let isNew = held.withLock { held in
            defer { held = session }
            return held !== session
        }
        if isNew { session.attach(self) }
    }

    open var status: NEVPNStatus { session.status }
    open var connectedDate: Date? { nil }

    open func startVPNTunnel() throws { try session.start(nil) }

    open func startVPNTunnel(options: [String: NSObject]? = nil) throws { try session.start(options) }

    open func stopVPNTunnel() { session.stop(.userInitiated) }

    open func fetchLastDisconnectError(completionHandler handler: @escaping @Sendable ((any Error)?) -> Void) {
        session.fetchLastError(handler)
    }
}

open class NETunnelProviderSession: NEVPNConnection {
    open func startTunnel(options: [String: Any]? = nil) throws {
        try session.start(options?.compactMapValues { $0 as? NSObject })
    }

    open func stopTunnel() { session.stop(.userInitiated) }

    open func sendProviderMessage(
        _ messageData: Data, responseHandler: (@Sendable (Data?) -> Void)? = nil
    ) throws {
        try session.send(messageData, responseHandler)
    }
}
