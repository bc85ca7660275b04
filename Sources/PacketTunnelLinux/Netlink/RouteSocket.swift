// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A netlink socket for requests about links, addresses, routes and rules of the network namespace that the calling
/// thread is in when it is made (rtnetlink(7)). For one thread at a time.
package final class RouteSocket {
    private let descriptor: OwnedDescriptor
    private var sequence: UInt32 = 0

    /// How long the kernel, which answers at once, may take.
    private static let patience = timeval(tv_sec: 5, tv_usec: 0)

    package init() throws(LinuxNetworkError) {
        let number = socket(CTUNNEL_AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw RouteSocket.failure("open a netlink socket", errno) }
        descriptor = OwnedDescriptor(number)
        var address = ctunnel_sockaddr_nl(family: UInt16(CTUNNEL_AF_NETLINK), padding: 0, port: 0, groups: 0)
        let bound = unsafe withUnsafeBytes(of: &address) { bytes in
            unsafe bind(number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        guard bound == 0 else { throw RouteSocket.failure("bind a netlink socket", errno) }
        var patience = RouteSocket.patience
        unsafe setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    static func failure(_ operation: String, _ number: Int32) -> LinuxNetworkError {
        LinuxNetworkError(.netlink(operation: operation), errno: number)
    }

    /// Sends a request and waits for the kernel to have done it.
    /// - Throws: with the kernel's error number, as "cannot `operation`".
    func perform(_ request: NetlinkRequest, _ operation: @autoclosure () -> String) throws(LinuxNetworkError) {
        _ = try exchange(
            NetlinkRequest(type: request.type, flags: request.flags | Netlink.acknowledge, body: request.body),
            operation())
    }

    /// Sends a request for everything of a kind.
    /// - Returns: the bodies of the messages of type `answer`.
    func dump(
        _ request: NetlinkRequest, answer: UInt16, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [[UInt8]] {
        let replies = try exchange(
            NetlinkRequest(type: request.type, flags: request.flags | Netlink.dump, body: request.body),
            operation())
        return replies.filter { $0.type == answer }.map(\.body)
    }

    /// Sends a request for one thing.
    func ask(
        _ request: NetlinkRequest, answer: UInt16, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [UInt8] {
        let replies = try exchange(
            NetlinkRequest(type: request.type, flags: request.flags | Netlink.acknowledge, body: request.body),
            operation())
        guard let reply = replies.first(where: { $0.type == answer }) else {
            throw RouteSocket.failure(operation(), ENOMSG)
        }
        return reply.body
    }

    private func exchange(
        _ request: NetlinkRequest, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [NetlinkReply] {
        sequence &+= 1
        let message = request.message(sequence: sequence)
        let number = descriptor.number
        let sent = unsafe message.withUnsafeBytes { bytes in
            SystemCall.retry { unsafe send(number, bytes.baseAddress, bytes.count, 0) }
        }
        guard sent == message.count else { throw RouteSocket.failure(operation(), errno) }
        var replies: [NetlinkReply] = []
        while true {
            let datagram = try receive(operation())
            for reply in NetlinkReply.parse(datagram) where reply.sequence == sequence {
                if let reason = reply.errorNumber {
                    guard reason == 0 else { throw RouteSocket.failure(operation(), reason) }
                    return replies
                }
                if reply.type == Netlink.done { return replies }
                replies.append(reply)
            }
        }
    }

    private func receive(_ operation: @autoclosure () -> String) throws(LinuxNetworkError) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let number = descriptor.number
        let count = unsafe buffer.withUnsafeMutableBytes { bytes in
            SystemCall.retry { unsafe recv(number, bytes.baseAddress, bytes.count, 0) }
        }
        guard count > 0 else { throw RouteSocket.failure(operation(), count == 0 ? EPIPE : errno) }
        return Array(buffer.prefix(count))
    }
}
