// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A netlink socket for requests about links, addresses, routes and rules (rtnetlink(7)), in the network namespace of
/// the thread that creates it. Only one thread at a time may use it.
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

    /// Sends a request and waits until the kernel has executed it.
    /// - Throws: An error with the kernel's error number and the text "cannot `operation`".
    func perform(_ request: NetlinkRequest, _ operation: @autoclosure () -> String) throws(LinuxNetworkError) {
        _ = try exchange(request, operation())
    }

    /// The number of attempts to read a list that changes while it is read.
    private static let mostLists = 16

    /// Requests a list from the kernel. Repeats this if the list changes while it is read.
    /// - Returns: The bodies of the messages of type `answer`.
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

    /// Requests a single object from the kernel.
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
