// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses

/// The system's reason that a host has no address.
package struct HostLookupFailure: Error {
    package let reason: String
}

/// The system's own resolver.
package enum HostLookup {
    /// The addresses of a host, each once, in the system's order; at least one. It blocks: call it on a separate thread.
    /// - Parameters:
    ///   - host: a name, or an address as text, with a zone if it has one.
    ///   - port: the port of the endpoints.
    package static func endpoints(
        of host: String, port: UInt16
    ) throws(HostLookupFailure) -> [Endpoint] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let reason = unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
            throw HostLookupFailure(reason: reason)
        }
        defer { unsafe freeaddrinfo(list) }
        var endpoints: [Endpoint] = []
        var next = unsafe list
        while let entry = unsafe next {
            // The list contains each address once for each socket type.
            if let endpoint = unsafe endpoint(entry.pointee.ai_addr, port), !endpoints.contains(endpoint) {
                endpoints.append(endpoint)
            }
            unsafe next = entry.pointee.ai_next
        }
        guard !endpoints.isEmpty else { throw HostLookupFailure(reason: "the answer is empty") }
        return endpoints
    }

    @unsafe
    private static func endpoint(_ pointer: UnsafeMutablePointer<sockaddr>?, _ port: UInt16) -> Endpoint? {
        guard let pointer = unsafe pointer else { return nil }
        let raw = UnsafeRawPointer(pointer)
        switch unsafe Int32(pointer.pointee.sa_family) {
        case AF_INET:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in.self)
            return Endpoint(address: .v4(UInt32(bigEndian: name.sin_addr.s_addr)), port: port)
        case AF_INET6:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in6.self)
            let address = unsafe withUnsafeBytes(of: name.sin6_addr) { unsafe IPAddress(bytes: $0) }
            return address.map { Endpoint(address: $0, port: port, scopeID: name.sin6_scope_id) }
        default: return nil
        }
    }
}
