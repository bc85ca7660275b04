// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnelLinux

// The connections of removed clients.

extension ServerNetworkCore {
    /// The end of connections of removed clients, on another thread.
    struct ConnectionEnd: Sendable {
        let attempt: ConnectionEnds.Attempt
        fileprivate let start: Int
    }

    /// Whether connections of removed clients are being ended.
    var isEndingConnections: Bool { ends.attempt != nil }
    /// Whether connections of removed clients must be ended, and are not being ended.
    var hasConnectionsToEnd: Bool { ends.isDue }

    /// Returns those of `networks` whose former clients' connections are being ended or must be ended. A new client
    /// with such an address would receive the packets of these connections.
    func withConnections(_ networks: Set<IPPrefix>) -> Set<IPPrefix> {
        networks.filter(ends.includes)
    }

    /// Whether a prefix is a desired client's.
    func isDesired(_ prefix: IPPrefix) -> Bool { running?.clients.isDesired(prefix) == true }

    /// Begins an attempt to end connections that the firewall no longer permits. The caller must end them and then call
    /// ``ended(_:_:)`` with the result.
    /// - Parameter retries: Whether connections that an earlier attempt has not ended are tried again.
    /// - Returns: `nil` if there are none, if another thread is ending connections, or while a change of clients is not
    ///   applied.
    func connectionsToEnd(retries: Bool) -> ConnectionEnd? {
        guard let running, running.clients.isCurrent else { return nil }
        // The server's own connections with clients stay.
        let own = running.firewall.settings.addresses.map { IPPrefix(host: $0.address) }
        return ends.begin(retries: retries, clients: running.clients.allDesired + own)
            .map { ConnectionEnd(attempt: $0, start: starts) }
    }

    /// Records the result of the attempt that ``connectionsToEnd(retries:)`` began. Connections that were not ended are
    /// tried again, except for those of addresses that clients have now.
    func ended(_ end: ConnectionEnd, _ result: EndResult) {
        guard end.start == starts, running != nil else { return }
        ends.finish(isDone: recordEnd(result), isClient: isDesired)
    }

    /// - Returns: `false` if it must be tried again.
    private func recordEnd(_ result: EndResult) -> Bool {
        switch result {
        case .success(let (count, failure)):
            logger.debug("ended \(count) connections of former clients")
            report(failure, isFinal: false)
            return failure == nil
        case .failure(let error):
            // A kernel that does not list connections will not do so later.
            let isFinal = ConnectionSocket.isUnsupported(error)
            report(error, isFinal: isFinal)
            return isFinal
        }
    }

    private func report(_ error: LinuxNetworkError?, isFinal: Bool) {
        if let error, error != connectionProblem {
            logger.warning("cannot end the connections of former clients\(isFinal ? "" : ", will retry"): \(error)")
        }
        connectionProblem = error
    }
}
