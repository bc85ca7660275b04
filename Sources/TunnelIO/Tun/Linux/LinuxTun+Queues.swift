// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    extension LinuxTun {
        /// Creates an interface, or attaches to a persistent one, as ``init(name:mtu:offload:isMultiQueue:)``.
        ///
        /// If the kernel refuses several queues, the device has one. A persistent interface keeps its kind.
        /// - Parameter prefersQueues: whether ``cloneQueue()`` should be able to add queues.
        package static func make(
            name: String, mtu: Int, prefersQueues: Bool
        ) throws(TunnelIOError) -> LinuxTun {
            do throws(TunnelIOError) {
                return try LinuxTun(name: name, mtu: mtu, isMultiQueue: prefersQueues)
            } catch {
                guard error.errno == EINVAL else { throw error }
                return try LinuxTun(name: name, mtu: mtu, isMultiQueue: !prefersQueues)
            }
        }

        /// Another queue of this interface, a separate device for another thread.
        ///
        /// The kernel distributes packets over the queues so that those of one flow come from one queue: the queue that last
        /// sent packets of the flow, or one by a hash. The queue has the interface's offloads. The interface is removed with
        /// its last queue, unless it is persistent.
        ///
        /// If the interface was moved to another namespace, the queue is opened there, which needs CAP_SYS_ADMIN.
        /// - Throws: `.unsupported` if the interface was created for one queue; `.deviceRemoved`; `.closed`; `.device` with
        ///   `errno` `E2BIG` if it has 256 queues, the maximum, or `EPERM` without CAP_NET_ADMIN if the process is not the
        ///   interface's owner.
        public func cloneQueue() throws(TunnelIOError) -> LinuxTun {
            guard isMultiQueue else {
                throw TunnelIOError(.unsupported("another queue of a device that was made with one"))
            }
            return try withOpenDescriptor { number throws(TunnelIOError) in
                // The interface may be renamed or moved meanwhile. If the call attached to another interface, or even
                // created one, the descriptor is closed and the loop tries again.
                for _ in 0..<8 {
                    let name = try LinkWatch.name(of: number)
                    let place = (try? NetworkNamespace(ofDevice: number))?.identity
                    let opened = try openBeside(number, name: name)
                    let reached = (try? NetworkNamespace(ofDevice: opened.number))?.identity
                    guard place == reached, try LinkWatch.name(of: number) == name,
                        try LinkWatch.name(of: opened.number) == name
                    else { continue }
                    let attached = Attached(descriptor: opened, name: name, framing: framing, isMultiQueue: true)
                    return try LinuxTun(attached, watch: try LinkWatch(), mtu: nil, abilities: abilities)
                }
                throw failure("add a queue; it does not keep its name", errno: EAGAIN)
            }
        }

        /// Another queue of this interface, as ``cloneQueue()``.
        public func makeQueue() throws(TunnelIOError) -> any TunDevice { try cloneQueue() }

        /// A descriptor attached to the interface of this name in the namespace of the device `number`.
        private func openBeside(_ number: Int32, name: String) throws(TunnelIOError) -> OwnedDescriptor {
            guard let namespace = try? NetworkNamespace(ofDevice: number),
                namespace.identity != NetworkNamespace.current
            else {
                return try Self.open(name: name, framing: framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: true)
            }
            let framing = framing
            let opened = try namespace.run { () -> Result<Int32, TunnelIOError> in
                Result { () throws(TunnelIOError) in
                    try Self.open(name: name, framing: framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: true).release()
                }
            }
            return OwnedDescriptor(try opened.get())
        }
    }
#endif
