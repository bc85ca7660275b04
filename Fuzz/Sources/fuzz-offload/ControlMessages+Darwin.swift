// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
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
            return unsafe Array(memory[..<DarwinPacketInfo.write(endpoint, to: start)])
        }
        require(written.count <= 32, "a control message of \(written.count) bytes")
        if isIPv6 {
            require(read(written) == endpoint.source, "a source that was written reads as another one")
        }
        // Any bytes that the system might write.
        _ = read(Array(input.take(128)))
    }

    private func read(_ control: [UInt8]) -> EndpointSource {
        unsafe GuardedBytes.input.lend(control) { memory in
            var endpoint = Endpoint(address: .v6(0, 1), port: 2)
            unsafe DarwinPacketInfo.read(UnsafeRawBufferPointer(memory), into: &endpoint)
            return endpoint.source
        }
    }
#endif
