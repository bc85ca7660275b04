// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation
import Synchronization

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nepackettunnelflow
// https://developer.apple.com/documentation/networkextension/nepacket

open class NEPacket: NSObject {
    public let data: Data
    public let protocolFamily: sa_family_t

    public init(data: Data, protocolFamily: sa_family_t) {
        self.data = data
        self.protocolFamily = protocolFamily
        super.init()
    }
}

open class NEPacketTunnelFlow: NSObject {
    /// The system's side of the flow.
    public let standIn = StandInFlow()

    /// Calls the handler once, with at least one packet, on a queue of the system.
    open func readPackets(completionHandler: @escaping @Sendable ([Data], [NSNumber]) -> Void) {
        standIn.read(completionHandler)
    }

    /// False when the packets were not written.
    @discardableResult
    open func writePackets(_ packets: [Data], withProtocols protocols: [NSNumber]) -> Bool {
        standIn.write(packets, protocols)
    }
}
