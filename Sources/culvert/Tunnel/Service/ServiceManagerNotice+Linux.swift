// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import TunnelIO
    import TunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Tells the service manager how the service is (sd_notify(3)); does nothing without one.
    struct ServiceManagerNotice: Sendable {
        /// The manager's socket: a path, or an abstract name behind an `@`.
        let socket: String?

        init(environment: (String) -> String? = StandardStream.environment) {
            let value = environment("NOTIFY_SOCKET") ?? ""
            socket = value.hasPrefix("/") || value.hasPrefix("@") ? value : nil
        }

        /// The tunnel is up.
        func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\n") }

        /// What `systemctl status` shows.
        func status(_ text: String) { send("STATUS=\(text)\n") }

        /// The tunnel is going down.
        func stopping() { send("STOPPING=1\n") }

        private func send(_ text: String) {
            guard let socket else { return }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            var path = Array(socket.utf8)
            if path.first == UInt8(ascii: "@") { path[0] = 0 }
            let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
                guard path.count < raw.count else { return false }
                unsafe raw.copyBytes(from: path)
                return true
            }
            // SOCK_DGRAM | SOCK_CLOEXEC, which C libraries declare as different types.
            let descriptor = OwnedDescriptor(systemSocket(AF_UNIX, 2 | 0o2_000_000, 0))
            guard fits, descriptor.number >= 0 else { return }
            // An abstract name has its length, and no zero at its end.
            let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count + (path.first == 0 ? 0 : 1))
            let (number, bytes) = (descriptor.number, Array(text.utf8))
            unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    // Nobody listening is nobody's loss.
                    unsafe _ = sendto(number, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
                }
            }
        }
    }

    private func systemSocket(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
#endif
