// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import TunnelSystem

/// A network that can find out whether a UDP port is closed.
package protocol PortProbing: DatagramNetwork {
    /// Sends an empty datagram to `endpoint` from a separate socket, which is closed when the returned function is released.
    ///
    /// A host refuses a datagram to a closed port with an ICMP message. The system reports it only to the connected socket
    /// that sent the datagram, so a forged message must contain that socket's random port.
    /// - Parameter mark: the mark for policy routing (`SO_MARK`); 0 sets no mark.
    /// - Returns: a function that returns whether a refusal has arrived. The system reports each refusal once.
    /// - Throws: `.socket` if the host cannot send to the endpoint; `.unsupported` if the platform has no marks.
    func probe(_ endpoint: Endpoint, mark: UInt32) throws(TunnelIOError) -> @Sendable () -> Bool
}

/// A connected UDP socket that has sent an empty datagram.
final class PortProbe: Sendable {
    private let descriptor: OwnedDescriptor

    /// Connects a socket that does not block, and sends the datagram.
    /// - Parameter write: lays an endpoint out as the system's socket address and returns its length.
    init(
        _ descriptor: consuming OwnedDescriptor, _ endpoint: Endpoint, write: (Endpoint, UnsafeMutableRawPointer) -> Int
    ) throws(TunnelIOError) {
        self.descriptor = descriptor
        let number = self.descriptor.number
        let code = unsafe SocketSetup.connectSocket(number, to: endpoint, write: write)
        guard code == 0 else { throw TunnelIOError(.socket(operation: "connect"), errno: code) }
        guard send(number, nil, 0, 0) == 0 else { throw TunnelIOError(.socket(operation: "send"), errno: errno) }
    }

    /// Whether a refusal has arrived since the previous call.
    var isRefused: Bool {
        var byte: UInt8 = 0
        return unsafe recv(descriptor.number, &byte, 1, 0) < 0 && errno == ECONNREFUSED
    }
}
