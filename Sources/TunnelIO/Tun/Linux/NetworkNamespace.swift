// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// A network namespace, held open.
    package struct NetworkNamespace: ~Copyable {
        /// A descriptor of the namespace. The namespace exists as long as the descriptor is open, so close it soon.
        let descriptor: OwnedDescriptor
        /// Identifies the namespace, as long as it exists.
        let identity: FileIdentity

        /// The namespace of a TUN descriptor's device.
        /// - Throws: `errno` `EPERM` without CAP_NET_ADMIN over that namespace, `EBADFD` if the device was removed, `EINVAL`
        ///   before Linux 5.8.
        init(ofDevice descriptor: Int32) throws(TunnelIOError) {
            try self.init(of: descriptor, CTUNNEL_TUNGETDEVNETNS)
        }

        /// The namespace that a socket is in.
        /// - Throws: `errno` `EPERM` without CAP_NET_ADMIN over that namespace.
        init(ofSocket descriptor: Int32) throws(TunnelIOError) {
            try self.init(of: descriptor, CTUNNEL_SIOCGSKNS)
        }

        private init(of descriptor: Int32, _ request: UInt) throws(TunnelIOError) {
            let code = TunnelIOError.Code.socket(operation: "ask for the network namespace")
            let number = try SystemCall.check(code) { () -> Int32 in
                ctunnel_tun_ioctl_value(descriptor, request, 0)
            }
            try self.init(OwnedDescriptor(number), code)
        }

        /// The namespace of the calling thread; `nil` if the system does not report it.
        static var current: FileIdentity? {
            let socket = controlSocket()
            guard socket >= 0 else { return nil }
            let owned = OwnedDescriptor(socket)
            return (try? NetworkNamespace(ofSocket: owned.number))?.identity
        }

        /// The namespace that a file names, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
        package init(path: String) throws(TunnelIOError) {
            let code = TunnelIOError.Code.socket(operation: "open the network namespace \(path)")
            let number = try SystemCall.check(code) { SystemCall.open(path, O_RDONLY) }
            try self.init(OwnedDescriptor(number), code)
        }

        private init(_ owned: consuming OwnedDescriptor, _ code: TunnelIOError.Code) throws(TunnelIOError) {
            guard let status = FileStatus(of: owned.number) else { throw TunnelIOError(code, errno: errno) }
            descriptor = owned
            identity = status.identity
        }

        /// A datagram socket inside the namespace, for interface ioctls.
        /// - Throws: `errno` `EPERM` without CAP_SYS_ADMIN.
        borrowing func makeControlSocket() throws(TunnelIOError) -> OwnedDescriptor {
            let made: (socket: Int32, reason: Int32) = try run {
                let socket = NetworkNamespace.controlSocket()
                return (socket, errno)
            }
            guard made.socket >= 0 else {
                throw TunnelIOError(.socket(operation: "open a control socket"), errno: made.reason)
            }
            return OwnedDescriptor(made.socket)
        }

        /// Runs `body` in the namespace and waits for it. It runs on a separate thread, which enters the namespace and then
        /// ends, so a caller's thread never changes its namespace.
        /// - Throws: `errno` `EPERM` without CAP_SYS_ADMIN.
        package borrowing func run<Result>(_ body: () -> Result) throws(TunnelIOError) -> Result {
            let namespace = descriptor.number
            return try withoutActuallyEscaping(body) { (body) throws(TunnelIOError) -> Result in
                var result: Result?
                var reason: Int32 = 0
                let errand = Errand {
                    if SystemCall.retry({ ctunnel_tun_enter_network_namespace(namespace) }) >= 0 {
                        result = body()
                    } else {
                        reason = errno
                    }
                }
                try errand.runOnThread()
                guard let result else {
                    throw TunnelIOError(.socket(operation: "enter a network namespace"), errno: reason)
                }
                return result
            }
        }

        /// Work for a thread, which is joined before the objects that the work captures are released.
        private final class Errand {
            private let work: () -> Void

            init(_ work: @escaping () -> Void) {
                self.work = work
            }

            func runOnThread() throws(TunnelIOError) {
                var thread = pthread_t()
                let failure = unsafe pthread_create(
                    &thread, nil,
                    { argument in
                        guard let argument = unsafe argument else { return nil }
                        unsafe Unmanaged<Errand>.fromOpaque(argument).takeUnretainedValue().work()
                        return nil
                    }, Unmanaged.passUnretained(self).toOpaque())
                guard failure == 0 else {
                    throw TunnelIOError(.socket(operation: "start a thread for a network namespace"), errno: failure)
                }
                pthread_join(thread, nil)
            }
        }

        /// A datagram socket in the calling thread's namespace, for interface ioctls; negative when it failed.
        ///
        /// A local socket serves as well as an Internet one, and exists on every host.
        static func controlSocket() -> Int32 {
            socket(AF_UNIX, Int32(ctunnel_tun_datagram_socket), 0)
        }
    }
#endif
