// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Glibc
    import NetworkAddresses
    import Testing
    import TunnelIO

    /// UDP sockets in network namespaces that lack something or route by marks. With `CI=true` these tests are never
    /// skipped.
    @Suite(
        "UDP sockets in network namespaces",
        .enabled(if: geteuid() == 0 || (unsafe getenv("CI").map { unsafe String(cString: $0) }) == "true"),
        .timeLimit(.minutes(5)))
    struct UDPSocketTests {
        @Test("A host with IPv6 switched off gets a working IPv4 socket")
        func withoutIPv6() throws {
            try inNewNamespace("ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6") {
                let sockets = try SystemDatagramNetwork().bind(port: 0, mark: 0)
                defer { sockets.close() }
                let v4 = try #require(sockets.v4)
                #expect(v4.port == sockets.port)
                #expect(try v4.send(batch(to: .loopback(port: v4.port)), in: 0..<1).sent == 1)
                #expect(try receive(from: v4)?.address.low == 0x7f00_0001)
                // If the kernel provides a socket nevertheless, its datagrams are dropped without other effects.
                if let v6 = sockets.v6 {
                    let loopback6 = Endpoint(address: .v6(0, 1), port: sockets.port)
                    #expect(try v6.send(batch(to: loopback6), in: 0..<1).dropped == 1)
                }
            }
        }

        @Test("A host without an IPv4 address gets a working IPv6 socket on the port asked for")
        func withoutIPv4() throws {
            try inNewNamespace("ip link set lo up; ip addr del 127.0.0.1/8 dev lo") {
                let sockets = try SystemDatagramNetwork().bind(port: 51_820, mark: 0)
                defer { sockets.close() }
                #expect(sockets.port == 51_820)
                let v6 = try #require(sockets.v6)
                #expect(v6.port == 51_820)
                let loopback6 = Endpoint(address: .v6(0, 1), port: 51_820)
                #expect(try v6.send(batch(to: loopback6), in: 0..<1).sent == 1)
                #expect(try receive(from: v6)?.source.low == 1)
                if let v4 = sockets.v4 {
                    let remote = Endpoint(address: .v4(0xc000_0201), port: 9)
                    #expect(try v4.send(batch(to: remote), in: 0..<1).lastError == ENETUNREACH)
                }
            }
        }

        /// A link without a host at the other end, so that sending succeeds and nothing answers.
        private static let deadLink = """
            ip link set lo up; ip link add d0 type veth peer name d1; ip link set d1 up;
            ip addr add 10.9.0.1/24 dev d0; ip link set d0 up;
            """
        private static let onDeadLink = Endpoint(address: .v4(0x0a09_0002), port: 9)

        @Test("The mark decides on the route, from the first datagram and when it is changed")
        func mark() throws {
            try inNewNamespace(Self.deadLink + "ip rule add pref 10 fwmark 7 prohibit") {
                let outgoing = try batch(to: Self.onDeadLink)
                let plain = try SystemDatagramNetwork().bind(port: 0, mark: 0)
                let marked = try SystemDatagramNetwork().bind(port: 0, mark: 7)
                defer {
                    plain.close()
                    marked.close()
                }
                let first = try #require(plain.v4)
                let second = try #require(marked.v4)
                #expect(try first.send(outgoing, in: 0..<1).sent == 1)
                #expect(try second.send(outgoing, in: 0..<1).lastError == EACCES)
                try first.setMark(7)
                #expect(try first.send(outgoing, in: 0..<1).lastError == EACCES)
                try first.setMark(0)
                #expect(try first.send(outgoing, in: 0..<1).sent == 1)
            }
        }

        @Test("A source that the host loses is left out from then on")
        func vanishedSource() throws {
            try inNewNamespace(Self.deadLink + "ip addr add 10.9.0.5/24 dev d0") {
                let socket = try LinuxUDPSocket(isIPv6: false, port: 0)
                var endpoint = Self.onDeadLink
                endpoint.source.low = 0x0a09_0005
                let outgoing = try batch(to: endpoint)
                #expect(try socket.send(outgoing, in: 0..<1).sent == 1)
                #expect(socket.statistics.staleSources == 0)
                try shell("ip addr del 10.9.0.5/24 dev d0")
                #expect(try socket.send(outgoing, in: 0..<1).sent == 1)
                #expect(socket.statistics.staleSources == 1)
                // The same with the index of an interface that does not exist.
                endpoint.source.low = 0
                endpoint.source.interfaceIndex = 4000
                #expect(try socket.send(batch(to: endpoint), in: 0..<1).sent == 1)
                #expect(socket.statistics.staleSources == 2)
            }
        }

        @Test("Link-local addresses keep their scope, there and back")
        func linkLocal() throws {
            let setup = """
                ip link set lo up; ip link add a0 type veth peer name b0;
                for d in a0 b0; do echo 1 > /proc/sys/net/ipv6/conf/$d/addr_gen_mode; done;
                ip addr add fe80::a/64 dev a0 nodad; ip addr add fe80::b/64 dev b0 nodad;
                ip link set a0 up; ip link set b0 up
                """
            try inNewNamespace(setup) {
                let a0 = unsafe if_nametoindex("a0")
                let b0 = unsafe if_nametoindex("b0")
                let near = try LinuxUDPSocket(isIPv6: true, port: 0)
                let far = try LinuxUDPSocket(isIPv6: true, port: 0)
                let toFar = Endpoint(address: .v6(0xfe80 << 48, 0xb), port: far.port, scopeID: a0)
                let result = try near.send(batch(to: toFar), in: 0..<1)
                #expect(result.sent == 1, "\(result)")
                let asked = try #require(try receive(from: far))
                #expect(asked.address == .v6(0xfe80 << 48, 0xa))
                #expect(asked.scopeID == b0 && asked.source.interfaceIndex == b0 && asked.source.low == 0xb)
                #expect(try far.send(batch(to: asked), in: 0..<1).sent == 1)
                let answer = try #require(try receive(from: near))
                #expect(answer.address.low == 0xb && answer.scopeID == a0)
                #expect(far.statistics.staleSources == 0)
            }
        }
    }

    private struct SetupFailure: Error {
        var step: String
        var code: Int32
    }

    private func shell(_ script: String) throws {
        let status = unsafe system("set -e; " + script)
        guard status == 0 else { throw SetupFailure(step: script, code: status) }
    }

    /// Runs `body` on a separate thread in a new network namespace, after `setup` has run in it.
    private func inNewNamespace(_ setup: String, _ body: @escaping () throws -> Void) throws {
        final class Outcome {
            var error: (any Error)?
            let body: () throws -> Void
            init(_ body: @escaping () throws -> Void) { self.body = body }
        }
        let outcome = Outcome {
            // The C library's headers declare it only for GNU sources.
            typealias Unshare = @convention(c) (Int32) -> Int32
            guard let symbol = unsafe dlsym(nil, "unshare") else { throw SetupFailure(step: "unshare", code: ENOSYS) }
            let newNetwork: Int32 = 0x4000_0000
            guard unsafe unsafeBitCast(symbol, to: Unshare.self)(newNetwork) == 0 else {
                throw SetupFailure(step: "unshare", code: errno)
            }
            try shell(setup)
            try body()
        }
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { context in
                guard let context = unsafe context else { return nil }
                let outcome = unsafe Unmanaged<Outcome>.fromOpaque(context).takeUnretainedValue()
                do { try outcome.body() } catch { outcome.error = error }
                return nil
            }, Unmanaged.passUnretained(outcome).toOpaque())
        guard code == 0 else { throw SetupFailure(step: "pthread_create", code: code) }
        _ = pthread_join(thread, nil)
        if let error = outcome.error { throw error }
    }

    /// A batch of one small datagram.
    private func batch(to endpoint: Endpoint) throws -> PacketBatch {
        let batch = try PacketBatch(packetCapacity: 1, byteCapacity: 64)
        batch.append(copying: [1, 2, 3], endpoint: endpoint)
        return batch
    }

    /// The endpoint of the next datagram, or `nil` if none arrives within two seconds.
    private func receive(from socket: any DatagramSocket) throws -> Endpoint? {
        var request = pollfd(fd: socket.readiness, events: Int16(POLLIN), revents: 0)
        guard unsafe poll(&request, 1, 2000) > 0 else { return nil }
        let batch = try PacketBatch(packetCapacity: 1, byteCapacity: 65_600)
        guard try socket.receive(into: batch) == 1 else { return nil }
        return batch[endpoint: 0]
    }
#endif
