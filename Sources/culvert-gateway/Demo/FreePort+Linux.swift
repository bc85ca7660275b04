// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import TunnelSystem

    /// Ports of 127.0.0.1 that nobody has.
    enum FreePort {
        static func tcp() throws(DemoFailure) -> UInt16 { try port(1) }
        static func udp() throws(DemoFailure) -> UInt16 { try port(2) }

        /// - Parameter kind: SOCK_STREAM or SOCK_DGRAM, which C libraries declare as different types.
        private static func port(_ kind: Int32) throws(DemoFailure) -> UInt16 {
            let descriptor = OwnedDescriptor(systemSocket(AF_INET, kind | 0o2_000_000, 0))
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let number = descriptor.number
            let isBound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    unsafe bind(number, pointer, length) == 0 && getsockname(number, pointer, &length) == 0
                }
            }
            guard isBound else { throw DemoFailure("no port is free: \(SystemError.words(errno))") }
            return UInt16(bigEndian: address.sin_port)
        }
    }

    private func systemSocket(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
#endif
