// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// Tells the service manager how the service is (sd_notify(3)); does nothing without one.
    package struct ServiceManagerNotice: Sendable {
        /// The manager's socket: a path, or an abstract name behind an `@`.
        package let socket: String?

        package init(environment: (String) -> String? = StandardStream.environment) {
            let value = environment("NOTIFY_SOCKET") ?? ""
            socket = value.hasPrefix("/") || value.hasPrefix("@") ? value : nil
        }

        /// The tunnel is up.
        package func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\n") }

        /// What `systemctl status` shows.
        package func status(_ text: String) { send("STATUS=\(text)\n") }

        /// The tunnel is going down.
        package func stopping() { send("STOPPING=1\n") }

        private func send(_ text: String) {
            guard let socket else { return }
            var name = Array(socket.utf8)
            if name.first == UInt8(ascii: "@") { name[0] = 0 }
            // SOCK_DGRAM | SOCK_CLOEXEC, which C libraries declare as different types.
            let descriptor = OwnedDescriptor(systemSocket(AF_UNIX, 2 | 0o2_000_000, 0))
            let (number, bytes) = (descriptor.number, Array(text.utf8))
            guard number >= 0 else { return }
            // Nobody listening is nobody's loss.
            unsafe UnixSocket.withAddress(name: name) { address, length in
                unsafe _ = sendto(number, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
            }
        }
    }

    private func systemSocket(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
#endif
