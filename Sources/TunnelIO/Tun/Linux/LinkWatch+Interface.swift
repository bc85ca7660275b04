// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem
    import NetworkAddresses

    /// Queries and changes of the interface, in whatever namespace it is.
    extension LinkWatch {
        // MARK: - By ioctl

        func isRunning(_ tun: Int32) throws(TunnelIOError) -> Bool {
            let request = try ioctl(CTUNNEL_SIOCGIFFLAGS, tun, "read the state")
            return request.flags & UInt16(CTUNNEL_IFF_RUNNING) != 0
        }

        func txQueueLength(_ tun: Int32) throws(TunnelIOError) -> Int {
            Int(try ioctl(CTUNNEL_SIOCGIFTXQLEN, tun, "read the queue length").number)
        }

        func setTxQueueLength(_ length: Int, _ tun: Int32) throws(TunnelIOError) {
            guard let length = Int32(exactly: length) else {
                throw TunnelIOError(
                    .device(name: try Self.name(of: tun), operation: "set the queue length to \(length)"), errno: EINVAL
                )
            }
            _ = try ioctl(CTUNNEL_SIOCSIFTXQLEN, tun, "set the queue length to \(length)", number: length)
        }

        private func ioctl(
            _ number: UInt, _ tun: Int32, _ operation: String, number argument: Int32 = 0
        ) throws(TunnelIOError) -> InterfaceRequest {
            try onInterface(tun, operation) { (socket, request, _) throws(TunnelIOError) in
                request.number = argument
                guard request.perform(number, on: socket) >= 0 else {
                    throw TunnelIOError(.device(name: request.name, operation: operation), errno: errno)
                }
                return request
            }
        }

        // MARK: - By netlink

        func index(_ tun: Int32) throws(TunnelIOError) -> Int32 {
            try query(tun).index
        }

        func addresses(_ tun: Int32) throws(TunnelIOError) -> [InterfaceAddress] {
            for _ in 0..<8 {
                let (replies, index) = try ask(tun, "list the addresses") { _ in InterfaceMessage.addressList }
                guard !replies.contains(where: \.isInterrupted) else { continue }
                return replies.compactMap { InterfaceMessage.address($0, index: index) }
            }
            throw TunnelIOError(
                .device(name: try Self.name(of: tun), operation: "list the addresses, which keep changing"),
                errno: EAGAIN)
        }

        func change(_ address: InterfaceAddress, isAdded: Bool, _ tun: Int32) throws(TunnelIOError) {
            _ = try ask(tun, isAdded ? "add the address \(address)" : "remove the address \(address)") { index in
                InterfaceMessage.change(address, isAdded: isAdded, index: index)
            }
        }

        func rename(to name: String, _ tun: Int32) throws(TunnelIOError) {
            _ = try ask(tun, "rename to '\(name)'") { InterfaceMessage.rename(to: name, index: $0) }
        }

        func attributes(_ tun: Int32) throws(TunnelIOError) -> TunAttributes {
            let (replies, _) = try ask(tun, "read the attributes") { InterfaceMessage.description(index: $0) }
            for reply in replies {
                if let attributes = InterfaceMessage.attributes(reply) { return attributes }
            }
            throw TunnelIOError(.unsupported("reading a TUN interface's attributes"))
        }

        /// Sends a request about the interface to the kernel in its namespace.
        ///
        /// If the interface moves at that moment, the request is repeated in its new namespace.
        private func ask(
            _ tun: Int32, _ operation: String, _ request: (_ index: Int32) -> NetlinkRequest
        ) throws(TunnelIOError) -> (replies: [NetlinkReply], index: Int32) {
            var reason: Int32 = ENODEV
            for _ in 0..<8 {
                let place = try query(tun)
                do throws(SystemError) {
                    let replies: [NetlinkReply]
                    if place.isHome {
                        replies = try requests.exchange(request(place.index), operation)
                    } else {
                        let socket = try namespaceSocket(tun)
                        replies = try socket.exchange(request(place.index), operation)
                    }
                    return (replies, place.index)
                } catch {
                    reason = error.errno
                    guard reason == ENODEV else { break }
                }
            }
            throw TunnelIOError(.device(name: try Self.name(of: tun), operation: operation), errno: reason)
        }

        private func namespaceSocket(_ tun: Int32) throws(SystemError) -> NetlinkSocket {
            do throws(TunnelIOError) {
                return try NetlinkSocket.make(in: NetworkNamespace(ofDevice: tun))
            } catch {
                throw SystemError("open a netlink socket", errno: error.errno)
            }
        }
    }

    extension TunAttributes {
        /// The attributes of the interface with this name in the calling thread's namespace; `nil` if it is not a TUN device.
        package static func ofInterface(named name: String) -> TunAttributes? {
            guard let socket = try? NetlinkSocket() else { return nil }
            let replies = try? socket.exchange(InterfaceMessage.description(name: name), "read the attributes")
            return replies?.lazy.compactMap { InterfaceMessage.attributes($0) }.first
        }
    }
#endif
