// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A network namespace, held open.
    struct NetworkNamespace: ~Copyable {
        /// A descriptor of the namespace. It keeps the namespace alive, so it is not kept for long.
        let descriptor: OwnedDescriptor
        /// Which namespace it is. Meaningful while someone keeps that namespace alive.
        let identity: Identity

        /// What tells namespaces apart.
        struct Identity: Hashable {
            var device: UInt64
            var inode: UInt64
        }

        /// The namespace that a socket, or the device of a TUN descriptor, is in.
        /// - Throws: `errno` `EPERM` without CAP_NET_ADMIN over that namespace, `EBADFD` when the device is gone.
        init(of descriptor: Int32) throws(TunnelIOError) {
            let code = TunnelIOError.Code.socket(operation: "ask for the network namespace")
            let number = try SystemCall.check(code) { () -> Int32 in
                ctunnel_tun_ioctl_value(descriptor, CTUNNEL_SIOCGSKNS, 0)
            }
            let owned = OwnedDescriptor(number)
            var status = stat()
            try SystemCall.check(code) { unsafe fstat(number, &status) }
            self.descriptor = owned
            identity = Identity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
        }

        /// A datagram socket inside the namespace, for interface ioctls.
        ///
        /// A thread of its own enters the namespace, makes the socket and ends, so that no caller's thread ever changes
        /// its namespace.
        /// - Throws: `errno` `EPERM` without CAP_SYS_ADMIN.
        borrowing func makeControlSocket() throws(TunnelIOError) -> OwnedDescriptor {
            let errand = Errand(namespace: descriptor.number)
            var thread = pthread_t()
            let failure = unsafe pthread_create(
                &thread, nil,
                { argument in
                    guard let argument = unsafe argument else { return nil }
                    unsafe Unmanaged<Errand>.fromOpaque(argument).takeUnretainedValue().run()
                    return nil
                }, Unmanaged.passUnretained(errand).toOpaque())
            guard failure == 0 else {
                throw TunnelIOError(.socket(operation: "start a thread for another network namespace"), errno: failure)
            }
            pthread_join(thread, nil)
            guard errand.socket >= 0 else {
                throw TunnelIOError(.socket(operation: "enter the device's network namespace"), errno: errand.reason)
            }
            return OwnedDescriptor(errand.socket)
        }

        /// What the thread is to do, and what came of it. One thread writes, and the other reads after joining it.
        private final class Errand {
            let namespace: Int32
            var socket: Int32 = -1
            var reason: Int32 = 0

            init(namespace: Int32) {
                self.namespace = namespace
            }

            func run() {
                if SystemCall.retry({ ctunnel_tun_enter_network_namespace(namespace) }) >= 0 {
                    socket = NetworkNamespace.controlSocket()
                }
                reason = errno
            }
        }

        /// A datagram socket in the calling thread's namespace, for interface ioctls; negative when it failed.
        ///
        /// A local socket serves as well as an Internet one, and exists on every host.
        static func controlSocket() -> Int32 {
            socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        }
    }
#endif
