// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    extension LinuxTun {
        /// Another queue of this interface, a device of its own that may be used on another thread.
        ///
        /// The kernel spreads packets over the queues so that those of one flow come from one queue: from the one that
        /// the flow's packets were last sent to, or else by a hash. Offloads are those of the interface. The interface goes when
        /// its last queue is closed, unless it is persistent.
        ///
        /// Where the interface was moved to another namespace, the queue is opened there, which takes CAP_SYS_ADMIN.
        /// - Throws: `.unsupported` when the interface was not made for more than one queue; `.deviceRemoved`; `.closed`;
        ///   `.device` with `errno` `E2BIG` when it has 256 queues, the most there can be, and `EPERM` without CAP_NET_ADMIN
        ///   where the process is not the interface's owner.
        public func cloneQueue() throws(TunnelIOError) -> LinuxTun {
            guard isMultiQueue else {
                throw TunnelIOError(.unsupported("another queue of a device that was made with one"))
            }
            return try withOpenDescriptor { number throws(TunnelIOError) in
                // It may be renamed or moved in between; what was attached to, or even made, in its stead goes again.
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

        /// A descriptor attached to the interface of this name where that of `number` is.
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
