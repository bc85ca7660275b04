// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CCulvert
    import CulvertC
    import Testing

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    @Suite("The mark of the datagrams", .enabled(if: SocketMark.canBeSet, "marks take CAP_NET_ADMIN"))
    struct MarkTests {
        /// Gives a tunnel another configuration.
        /// - Returns: the marks of its sockets.
        private func marks(of side: Side, after configuration: String) throws -> Set<UInt32> {
            #expect(culvert_configure(try side.handle, configuration, nil) == CULVERT_OK)
            return SocketMark.all(ofPort: try side.status.port)
        }

        @Test("A wg-quick file without a mark leaves that of the options, and one with a mark has its way until then")
        func options() throws {
            let side = try Side()
            try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32") { $0.mark = 0x51 }
            #expect(SocketMark.all(ofPort: try side.status.port) == [0x51])
            let file = "[Interface]\nPrivateKey = \(side.key.text)\n"
            #expect(try marks(of: side, after: file) == [0x51])
            #expect(try marks(of: side, after: file + "FwMark = 7\n") == [7])
            #expect(try marks(of: side, after: file) == [0x51])
            #expect(try marks(of: side, after: file + "FwMark = off\n") == [0])
            #expect(try marks(of: side, after: "replace_peers=true\n") == [0], "names no mark")
            #expect(try marks(of: side, after: "fwmark=9\n") == [9])
        }

        @Test("Without a mark in the options, a wg-quick file without a mark resets it")
        func noOption() throws {
            let side = try Side()
            try side.start(with: TestKey().publicKey, addresses: "10.0.0.2/32")
            let file = "[Interface]\nPrivateKey = \(side.key.text)\n"
            #expect(try marks(of: side, after: file + "FwMark = 7\n") == [7])
            #expect(try marks(of: side, after: file) == [0])
        }
    }

    /// `SO_MARK` of this process's sockets.
    enum SocketMark {
        /// Whether this process may set marks.
        static var canBeSet: Bool {
            // SOCK_DGRAM, whose type the C libraries do not agree about.
            let number = socket(AF_INET, 2, 0)
            defer { close(number) }
            var mark: UInt32 = 1
            return setsockopt(number, SOL_SOCKET, SO_MARK, &mark, socklen_t(MemoryLayout<UInt32>.size)) == 0
        }

        /// The marks of the UDP sockets that are bound to a port.
        static func all(ofPort port: UInt16) -> Set<UInt32> {
            var marks: Set<UInt32> = []
            for number in 0..<4096 as Range<Int32> {
                guard port != 0, option(SO_TYPE, of: number) == 2, self.port(of: number) == port,
                    let mark = option(SO_MARK, of: number)
                else { continue }
                marks.insert(mark)
            }
            return marks
        }

        private static func option(_ option: Int32, of number: Int32) -> UInt32? {
            var value: UInt32 = 0
            var length = socklen_t(MemoryLayout<UInt32>.size)
            return getsockopt(number, SOL_SOCKET, option, &value, &length) == 0 ? value : nil
        }

        private static func port(of number: Int32) -> UInt16? {
            var name = sockaddr_in6()
            var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let result = withUnsafeMutablePointer(to: &name) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
            }
            // The port lies at the same place in both kinds of address.
            guard result == 0, [AF_INET, AF_INET6].contains(Int32(name.sin6_family)) else { return nil }
            return UInt16(bigEndian: name.sin6_port)
        }
    }
#endif
