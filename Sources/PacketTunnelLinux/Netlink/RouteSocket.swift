// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A netlink socket for requests about links, addresses, routes and rules of the network namespace that the calling
/// thread is in when it is made (rtnetlink(7)). For one thread at a time.
package final class RouteSocket {
    private let socket: NetlinkSocket

    package init() throws(LinuxNetworkError) {
        do throws(SystemError) { socket = try NetlinkSocket() } catch {
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    static func failure(_ operation: String, _ number: Int32) -> LinuxNetworkError {
        LinuxNetworkError(.netlink(operation: operation), errno: number)
    }

    /// Sends a request and waits for the kernel to have done it.
    /// - Throws: with the kernel's error number, as "cannot `operation`".
    func perform(_ request: NetlinkRequest, _ operation: @autoclosure () -> String) throws(LinuxNetworkError) {
        _ = try exchange(request, operation())
    }

    /// The number of attempts to read a list that changes while it is read.
    private static let mostLists = 16

    /// Sends a request for everything of a kind; again, where it changed while it was read.
    /// - Returns: the bodies of the messages of type `answer`.
    func dump(
        _ request: NetlinkRequest, answer: UInt16, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [[UInt8]] {
        let list = NetlinkRequest(type: request.type, flags: request.flags | Netlink.dump, body: request.body)
        for _ in 0..<Self.mostLists {
            let replies = try exchange(list, operation())
            guard replies.contains(where: \.isInterrupted) else {
                return replies.filter { $0.type == answer }.map(\.body)
            }
        }
        throw RouteSocket.failure("\(operation()): other processes change it all the time", EAGAIN)
    }

    /// Sends a request for one thing.
    func ask(
        _ request: NetlinkRequest, answer: UInt16, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [UInt8] {
        let replies = try exchange(request, operation())
        guard let reply = replies.first(where: { $0.type == answer }) else {
            throw RouteSocket.failure(operation(), ENOMSG)
        }
        return reply.body
    }

    private func exchange(
        _ request: NetlinkRequest, _ operation: @autoclosure () -> String
    ) throws(LinuxNetworkError) -> [NetlinkReply] {
        do throws(SystemError) { return try socket.exchange(request, operation()) } catch {
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }
}
