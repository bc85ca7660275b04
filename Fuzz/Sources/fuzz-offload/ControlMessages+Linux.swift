// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    @testable import TunnelIO

    func checkControlMessages(_ input: inout ByteReader) {
        let isIPv6 = input.byte() & 1 != 0
        var endpoint = Endpoint(address: isIPv6 ? .v6(0, 1) : .v4(1), port: 2)
        endpoint.source.high = isIPv6 ? input.long() : 0
        endpoint.source.low = isIPv6 ? input.long() : UInt64(input.word())
        endpoint.source.interfaceIndex = input.word()
        let written = unsafe GuardedBytes.output.lend(40) { memory -> [UInt8] in
            guard let start = memory.baseAddress else { return [] }
            return unsafe Array(memory[..<UDPControlMessages.write(endpoint, to: start)])
        }
        let (back, _, _) = read(written, isIPv6)
        require(back == endpoint, "a source that was written reads as another one")
        // Any bytes that the system might write, at an address with the system's alignment.
        let raw = input.take(128)
        let (_, segment, _) = read(Array(raw.prefix(raw.count & ~7)), isIPv6)
        require(segment >= 0 && segment <= 0xffff, "a segment of \(segment) bytes")
    }

    private func read(_ control: [UInt8], _ isIPv6: Bool) -> (Endpoint, Int, UInt32) {
        unsafe GuardedBytes.input.lend(control) { memory in
            var endpoint = Endpoint(address: isIPv6 ? .v6(0, 1) : .v4(1), port: 2)
            var overflow: UInt32 = 0
            guard let start = memory.baseAddress else { return (endpoint, 0, 0) }
            let segment = unsafe UDPControlMessages.read(
                UnsafeRawPointer(start), length: memory.count, into: &endpoint, overflow: &overflow)
            return (endpoint, segment, overflow)
        }
    }
#endif
