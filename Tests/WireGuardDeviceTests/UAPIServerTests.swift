// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing
import TunnelIO
import TunnelSystem
import WireGuardCore

@testable import WireGuardDevice

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("UAPI server", .timeLimit(.minutes(1)))
struct UAPIServerTests {
    /// A folder for one test's sockets.
    private final class Folder {
        let path: String

        init() throws {
            // The six letters are mkdtemp's placeholder.
            var template = Array(("/tmp/culvert-uapi-" + String(repeating: "X", count: 6)).utf8CString)
            let made = unsafe template.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { return false }
                return unsafe mkdtemp(base) != nil
            }
            try #require(made)
            path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }

        deinit { unsafe _ = rmdir(path) }
    }

    /// A blocking client, whose reads give up after the tests' patience.
    private final class Client {
        let descriptor: Int32

        init(_ path: String) throws {
            // Blocking, so that a full listen queue makes the client wait.
            descriptor = try UnixSocket.connect(to: path, isBlocking: true).release()
            var limit = timeval(tv_sec: 20, tv_usec: 0)
            unsafe setsockopt(
                descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }

        deinit { close(descriptor) }

        func write(_ text: String) {
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = unsafe Array(bytes).withUnsafeBytes { unsafe UnixSocket.send(descriptor, $0) }
                guard count > 0 else { return }
                bytes = bytes.dropFirst(count)
            }
        }

        /// Reads until a reply has ended, or the connection has.
        func reply() -> String {
            var bytes: [UInt8] = []
            while !String(decoding: bytes, as: UTF8.self).hasSuffix("\n\n") {
                var chunk = [UInt8](repeating: 0, count: 65_536)
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(descriptor, into: $0) }
                guard count > 0 else { break }
                bytes += chunk.prefix(count)
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func device() throws -> WireGuardDevice {
        try WireGuardDevice(
            tun: try MemoryTun(name: "uapi", mtu: 1420), network: MemoryInternet().attach([.v4(0x0a00_0001)]))
    }

    @Test("The server answers get and set, and removes its file when the device closes")
    func serves() throws {
        let folder = try Folder()
        let path = folder.path + "/a.sock"
        let device = try device()
        try device.start()
        try device.serveUAPI(on: try ManagementSocket(path: path))
        let client = try Client(path)
        client.write("set=1\nlisten_port=4711\nfwmark=16\n\n")
        #expect(client.reply() == "errno=0\n\n")
        client.write("get=1\n\n")
        #expect(client.reply() == "listen_port=4711\nfwmark=16\nerrno=0\n\n")
        device.close()
        #expect(unsafe access(path, F_OK) != 0)
        #expect(device.closeReason == .requested)
    }

    @Test("Defect w: only the owner may connect")
    func socketMode() throws {
        let folder = try Folder()
        let socket = try ManagementSocket(path: folder.path + "/b.sock")
        var status = stat()
        #expect(unsafe stat(folder.path + "/b.sock", &status) == 0)
        #expect(status.st_mode & 0o077 == 0)
        socket.listener.close()
    }

    @Test("A second device with the same name is refused; a file without a listener is replaced")
    func occupied() throws {
        let folder = try Folder()
        let path = folder.path + "/c.sock"
        let first = try ManagementSocket(path: path)
        #expect(throws: WireGuardDeviceError(.alreadyRunning(path: path), errno: EADDRINUSE)) {
            _ = try ManagementSocket(path: path)
        }
        first.listener.close()
        // As after a crash: the descriptor is closed, and the file still exists.
        let dead = UnixSocket.make()
        #expect(UnixSocket.bindPrivately(dead, to: path) == 0)
        close(dead)
        #expect(unsafe access(path, F_OK) == 0)
        let second = try ManagementSocket(path: path)
        #expect(unsafe access(path, F_OK) == 0)
        second.listener.close()
        #expect(unsafe access(path, F_OK) != 0)
    }

    @Test("A file that replaced the socket stays, and a file that is not a socket is never removed")
    func foreignFiles() throws {
        let folder = try Folder()
        let path = folder.path + "/h.sock"
        let first = try ManagementSocket(path: path)
        #expect(unsafe unlink(path) == 0)
        let second = try ManagementSocket(path: path)
        first.listener.close()
        #expect(unsafe access(path, F_OK) == 0)
        second.listener.close()
        #expect(unsafe access(path, F_OK) != 0)

        close(unsafe open(path, O_CREAT | O_WRONLY, 0o600))
        #expect(throws: WireGuardDeviceError.self) { _ = try ManagementSocket(path: path) }
        #expect(unsafe unlink(path) == 0)
    }

    @Test("A listener whose queue is full is busy, not abandoned")
    func fullQueue() throws {
        let folder = try Folder()
        let path = folder.path + "/i.sock"
        let socket = try ManagementSocket(path: path)
        defer { socket.listener.close() }
        // No one accepts. A queue holds one more than its length.
        var waiting: [Client] = []
        for _ in 0...128 { waiting.append(try Client(path)) }
        #expect(throws: WireGuardDeviceError(.alreadyRunning(path: path), errno: EADDRINUSE)) {
            _ = try ManagementSocket(path: path)
        }
        withExtendedLifetime(waiting) {}
    }

    @Test("A path that does not fit is an error, not a cut name")
    func longPath() {
        let path = "/tmp/" + String(repeating: "x", count: 200)
        #expect(throws: WireGuardDeviceError.self) { _ = try ManagementSocket(path: path) }
    }

    @Test("Removing the socket's file closes the device")
    func removal() throws {
        let folder = try Folder()
        let path = folder.path + "/d.sock"
        let device = try device()
        try device.start()
        try device.serveUAPI(on: try ManagementSocket(path: path))
        #expect(unsafe unlink(path) == 0)
        #expect(device.waitUntilClosed() == .managementSocketRemoved)
    }

    @Test("Many concurrent clients are all served, even beyond the limit of connections")
    func manyClients() throws {
        let folder = try Folder()
        let path = folder.path + "/e.sock"
        let device = try device()
        try device.start()
        try device.serveUAPI(on: try ManagementSocket(path: path))
        for _ in 0..<3 {
            // The listen queue of a Unix socket makes further clients wait, so they come in portions.
            var clients: [Client] = []
            for _ in 0..<ManagementLimits().connections { clients.append(try Client(path)) }
            for client in clients { client.write("get=1\n\n") }
            for client in clients { #expect(client.reply().hasSuffix("errno=0\n\n")) }
        }
        device.close()
    }

    @Test("131 idle connections do not keep a client from its reply")
    func idleConnections() throws {
        let folder = try Folder()
        let path = folder.path + "/wg0.sock"
        let device = try device()
        defer { device.close() }
        try device.start()
        try device.serveUAPI(on: ManagementSocket(path: path))
        let idle = try (0..<131).map { _ in try Client(path) }
        let client = try Client(path)
        client.write("get=1\n\n")
        #expect(client.reply().hasSuffix("errno=0\n\n"))
        withExtendedLifetime(idle) {}
    }

    @Test("130,000 allowed IPs in one set come back in one get")
    func manyAllowedIPs() throws {
        let folder = try Folder()
        let path = folder.path + "/f.sock"
        let device = try device()
        try device.start()
        try device.serveUAPI(on: try ManagementSocket(path: path))
        let client = try Client(path)
        var text = "set=1\npublic_key=\(String(repeating: "ab", count: 32))\n"
        for index in 0..<130_000 { text += "allowed_ip=10.\(index >> 16).\(index >> 8 & 255).\(index & 255)/32\n" }
        client.write(text + "\n")
        #expect(client.reply() == "errno=0\n\n")
        client.write("get=1\n\n")
        let reply = client.reply()
        #expect(reply.split(separator: "\n").count { $0.hasPrefix("allowed_ip=") } == 130_000)
        device.close()
    }

    @Test("A client that asks and never reads does not make the process grow")
    func slowReader() throws {
        let folder = try Folder()
        let path = folder.path + "/g.sock"
        let device = try device()
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: try #require(PublicKey(hex: String(repeating: "cd", count: 32))))
        peer.allowedIPs = (0..<20_000).compactMap { index in
            IPPrefix(.v4(UInt32(index) << 8), length: 24).map { .add($0) }
        }
        update.peers = [peer]
        try device.apply(update)
        try device.start()
        try device.serveUAPI(on: try ManagementSocket(path: path))
        let greedy = try Client(path)
        _ = fcntl(greedy.descriptor, F_SETFL, O_NONBLOCK)
        // The server stops reading once a reply waits, so these writes come to an end by themselves.
        var written = 0
        let request = Array("get=1\n\n".utf8)
        while written < 1 << 24 {
            let count = unsafe request.withUnsafeBytes { unsafe UnixSocket.send(greedy.descriptor, $0) }
            guard count > 0 else { break }
            written += count
        }
        #expect(written < 1 << 24)
        // Other clients are still served.
        let other = try Client(path)
        other.write("get=1\n\n")
        #expect(other.reply().hasSuffix("errno=0\n\n"))
        device.close()
    }
}
