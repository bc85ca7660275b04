// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Foundation
public import PacketTunnel

extension MessageRouter {
    /// Answers a message of the app in a provider that no ``NetworkExtensionHost`` runs: an `NEAppProxyProvider`, or a packet tunnel of
    /// another ancestry. Its method of the same name calls this one.
    ///
    /// Every message gets exactly one answer, which a `MessageClient` over a ``ProviderSessionChannel`` reads.
    public func handleAppMessage(_ messageData: Data, completionHandler: ((Data?) -> Void)?) {
        let completion = OnceCompletion<Data?> { completionHandler?($0) }
        Task { completion.call(Data(await respond(to: Array(messageData)))) }
    }
}
