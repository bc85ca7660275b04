// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// Reports the state of the service to the service manager (sd_notify(3)). Without a manager, it does nothing.
    package struct ServiceManagerNotice: Sendable {
        /// The manager's socket: a path, or an abstract name that starts with `@`.
        package let socket: String?

        package init(environment: (String) -> String? = StandardStream.environment) {
            let value = environment("NOTIFY_SOCKET") ?? ""
            socket = value.hasPrefix("/") || value.hasPrefix("@") ? value : nil
        }

        /// Reports that the service is ready.
        package func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\n") }

        /// Sets the text of `systemctl status`.
        package func status(_ text: String) { send("STATUS=\(text)\n") }

        /// Reports that the service is stopping.
        package func stopping() { send("STOPPING=1\n") }

        private func send(_ text: String) {
            guard let socket else { return }
            var name = Array(socket.utf8)
            if name.first == UInt8(ascii: "@") { name[0] = 0 }
            // SOCK_DGRAM | SOCK_CLOEXEC, which C libraries declare with different types.
            let descriptor = OwnedDescriptor(systemSocket(AF_UNIX, 2 | 0o2_000_000, 0))
            let (number, bytes) = (descriptor.number, Array(text.utf8))
            guard number >= 0 else { return }
            // A manager that does not listen is not an error.
            unsafe UnixSocket.withAddress(name: name) { address, length in
                unsafe _ = sendto(number, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
            }
        }
    }

    private func systemSocket(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
#endif
