// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    /// A netlink socket in the network namespace of the thread that made it. For one thread at a time.
    package struct NetlinkSocket: ~Copyable, Sendable {
        /// Readable when a message of the kernel is waiting.
        package let descriptor: OwnedDescriptor

        private static let sequences = Atomic<UInt32>(0)

        /// A socket that receives the messages of these groups. Without groups, it sends requests.
        /// - Parameter protocolNumber: the subject; by default links, addresses, routes and rules.
        package init(
            groups: [Int32] = [], protocolNumber: Int32 = CTUNNEL_NETLINK_ROUTE
        ) throws(SystemError) {
            try self.init(Self.open(protocolNumber), groups: groups)
        }

        /// A socket for ``init(_:groups:)``, in the calling thread's namespace; negative when it failed, with the reason in
        /// `errno`.
        package static func open(_ protocolNumber: Int32 = CTUNNEL_NETLINK_ROUTE) -> Int32 {
            socket(CTUNNEL_AF_NETLINK, Int32(ctunnel_tun_raw_nonblocking_socket), protocolNumber)
        }

        /// Takes ownership of a descriptor that ``open(_:)`` returned, and binds it.
        /// - Throws: also for a negative descriptor, with the reason that `open(_:)` left in `errno`.
        package init(_ number: Int32, groups: [Int32] = []) throws(SystemError) {
            let owned = OwnedDescriptor(try SystemCall.check("open a netlink socket") { number })
            var address = ctunnel_sockaddr_nl(family: UInt16(CTUNNEL_AF_NETLINK), padding: 0, port: 0, groups: 0)
            try SystemCall.check("bind a netlink socket") {
                unsafe withUnsafeBytes(of: &address) { bytes in
                    unsafe bind(
                        number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
                }
            }
            for group in groups { try Self.setOption(CTUNNEL_NETLINK_ADD_MEMBERSHIP, to: group, of: number) }
            descriptor = owned
        }

        /// Sets whether it also receives messages of the other namespaces that have an ID in the socket's own.
        ///
        /// The socket does not keep those namespaces alive, as a socket inside them would.
        /// - Throws: `EPERM` without CAP_NET_BROADCAST.
        package func setHearsOtherNamespaces(_ isOn: Bool) throws(SystemError) {
            try Self.setOption(CTUNNEL_NETLINK_LISTEN_ALL_NSID, to: isOn ? 1 : 0, of: descriptor.number)
        }

        private static func setOption(_ option: Int32, to value: Int32, of number: Int32) throws(SystemError) {
            var value = value
            try SystemCall.check("set up a netlink socket") {
                unsafe setsockopt(number, CTUNNEL_SOL_NETLINK, option, &value, socklen_t(MemoryLayout<Int32>.size))
            }
        }

        /// A message of the kernel, with its namespace.
        package enum Received {
            /// Messages about the namespace with this id; -1 is the socket's own.
            case messages([NetlinkReply], namespace: Int32)
            /// Messages were lost, so the known state may be out of date.
            case overrun
            /// There is nothing more.
            case nothing
        }

        /// The next datagram. Does not block.
        package func receive() -> Received {
            while true {
                var (sender, namespace, reason): (UInt32, Int32, Int32) = (0, -1, 0)
                let number = descriptor.number
                // The kernel sends no larger datagrams.
                let datagram = unsafe [UInt8](unsafeUninitializedCapacity: 1 << 15) { buffer, count in
                    let received = SystemCall.retry {
                        unsafe ctunnel_tun_netlink_receive(
                            number, buffer.baseAddress, buffer.count, &sender, &namespace)
                    }
                    if received < 0 { reason = errno }
                    count = min(max(received, 0), buffer.count)
                }
                guard reason == 0 else { return reason == ENOBUFS ? .overrun : .nothing }
                // Other processes may write to this socket too.
                if sender == 0 { return .messages(NetlinkReply.parse(datagram), namespace: namespace) }
            }
        }

        /// Sends a request and collects the answer. The kernel begins the answer before `send` returns, and continues
        /// it while it is read.
        /// - Throws: the error number in the kernel's answer.
        package func exchange(
            _ request: NetlinkRequest, _ operation: @autoclosure () -> String
        ) throws(SystemError) -> [NetlinkReply] {
            var replies: [NetlinkReply] = []
            try exchange(request, operation()) { replies.append($0) }
            return replies
        }

        /// Sends a request and calls `handle` with each message of the answer as it is read, so that a long list needs
        /// no memory. The handler must not use this socket.
        /// - Throws: the error number in the kernel's answer. Part of the answer may have been handled by then.
        package func exchange(
            _ request: NetlinkRequest, _ operation: @autoclosure () -> String, each handle: (NetlinkReply) -> Void
        ) throws(SystemError) {
            let sequence = Self.sequences.wrappingAdd(1, ordering: .relaxed).newValue
            // A list ends with a separate message.
            let isList = request.flags & Netlink.dump == Netlink.dump
            let message = request.message(sequence: sequence, flags: isList ? 0 : Netlink.acknowledge)
            try exchange(message, sequence, operation(), each: handle)
        }

        /// Sends requests between the messages that begin and end a transaction, as nfnetlink requires for changes, and
        /// waits until the kernel has applied all of them, or none.
        /// - Throws: `SystemError` with the first error number in the answer.
        package func exchange(
            _ requests: [NetlinkRequest], between begin: NetlinkRequest, and end: NetlinkRequest,
            _ operation: @autoclosure () -> String
        ) throws(SystemError) {
            let sequence = Self.sequences.wrappingAdd(1, ordering: .relaxed).newValue
            var message = begin.message(sequence: sequence)
            for (index, request) in requests.enumerated() {
                // The kernel reports each error, but success only on request.
                let isLast = index == requests.count - 1
                message += request.message(sequence: sequence, flags: isLast ? Netlink.acknowledge : 0)
            }
            try exchange(message + end.message(sequence: sequence), sequence, operation()) { _ in }
        }

        private func exchange(
            _ message: [UInt8], _ sequence: UInt32, _ operation: @autoclosure () -> String,
            each handle: (NetlinkReply) -> Void
        ) throws(SystemError) {
            let number = descriptor.number
            try SystemCall.check(operation()) {
                unsafe message.withUnsafeBytes { unsafe send(number, $0.baseAddress, $0.count, 0) }
            }
            var failure: Int32 = 0
            while true {
                switch receive() {
                case .nothing: throw SystemError(operation(), errno: failure == 0 ? ENOMSG : failure)
                // Part of the answer is lost. Read the rest anyway; otherwise the kernel would stay busy with it.
                case .overrun: failure = ENOBUFS
                case .messages(let messages, _):
                    for reply in messages where reply.sequence == sequence {
                        // The message that ends a list may be the one that reports it as interrupted.
                        if reply.type == Netlink.done, reply.isInterrupted { handle(reply) }
                        guard let reason = reply.errorNumber ?? (reply.type == Netlink.done ? 0 : nil) else {
                            handle(reply)
                            continue
                        }
                        guard reason == 0, failure == 0 else {
                            throw SystemError(operation(), errno: reason == 0 ? failure : reason)
                        }
                        return
                    }
                }
            }
        }
    }
#endif
