// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import TunnelIO
    import WireGuardCore

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Speaks the userspace API to a daemon, as `wg` does.
    struct ManagementClient {
        /// The socket's file.
        var path: String
        /// Ends a wait when it polls readable.
        var interruption: Int32?

        private static let patience: Int64 = 3_000_000_000

        /// Carries out an update.
        func set(_ update: UAPIDeviceUpdate) throws(DemoFailure) {
            var request: [UInt8] = []
            update.appendRequest(to: &request)
            defer { unsafe request.withUnsafeMutableBytes { unsafe wipe($0) } }
            let reply = try exchange(request)
            guard String(decoding: reply, as: UTF8.self).hasPrefix("errno=0\n") else {
                throw DemoFailure("\(path) refused the configuration")
            }
        }

        /// The device's state.
        func get() throws(DemoFailure) -> UAPIDeviceState {
            let reply = try exchange(Array("get=1\n\n".utf8))
            do throws(UAPIReplyError) { return try UAPIDeviceState(reply: reply) } catch {
                throw DemoFailure("\(path): \(error)")
            }
        }

        private func exchange(_ request: [UInt8]) throws(DemoFailure) -> [UInt8] {
            let socket = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            guard socket >= 0 else { throw failure("socket") }
            defer { close(socket) }
            guard connect(socket) else { throw failure("connect") }
            var written = 0
            while written < request.count {
                let count = unsafe request.withUnsafeBytes { raw in
                    let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[written...])
                    return unsafe send(socket, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure("write") }
                written += count
            }
            var reply: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 4096)
            let deadline = LaneClock.now() + ManagementClient.patience
            // A reply ends with a blank line.
            while !reply.suffix(2).elementsEqual([0x0a, 0x0a]) {
                try Interruption.awaitReadable(socket, until: deadline, interruption: interruption)
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe recv(socket, $0.baseAddress, $0.count, 0) }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure("read") }
                reply += chunk[..<count]
            }
            return reply
        }

        private func connect(_ socket: Int32) -> Bool {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(path.utf8)
            let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
                guard bytes.count < raw.count else { return false }
                unsafe raw.copyBytes(from: bytes)
                return true
            }
            guard fits else { return false }
            return unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    unsafe systemConnect(socket, address, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            } == 0
        }

        private func failure(_ operation: String) -> DemoFailure {
            DemoFailure("\(path): \(operation): \(unsafe String(cString: strerror(errno)))")
        }
    }

    private func systemConnect(_ socket: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
        unsafe connect(socket, address, length)
    }
#endif
