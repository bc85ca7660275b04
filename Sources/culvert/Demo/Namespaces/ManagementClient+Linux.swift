// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import TunnelIO
    import TunnelSystem
    import WireGuardCore

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
            let connection: OwnedDescriptor
            do throws(SystemError) { connection = try UnixSocket.connect(to: path, isBlocking: true) } catch {
                throw DemoFailure("\(error)")
            }
            let socket = connection.number
            var written = 0
            while written < request.count {
                let count = unsafe request.withUnsafeBytes { raw in
                    unsafe UnixSocket.send(socket, UnsafeRawBufferPointer(rebasing: raw[written...]))
                }
                guard count > 0 else { throw failure("write") }
                written += count
            }
            var reply: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 4096)
            let deadline = LaneClock.now() + ManagementClient.patience
            // A reply ends with a blank line.
            while !reply.suffix(2).elementsEqual([0x0a, 0x0a]) {
                try Interruption.awaitReadable(socket, until: deadline, interruption: interruption)
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(socket, into: $0) }
                guard count > 0 else { throw failure("read") }
                reply += chunk[..<count]
            }
            return reply
        }

        private func failure(_ operation: String) -> DemoFailure {
            DemoFailure("\(SystemError("\(path): \(operation)", errno: errno))")
        }
    }
#endif
