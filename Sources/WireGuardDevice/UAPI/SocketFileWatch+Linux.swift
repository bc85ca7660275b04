// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization
    import TunnelIO
    import TunnelSystem

    /// Detects the removal of the management socket's file, by which `wg-quick` and users end a userspace device.
    final class SocketFileWatch: Sendable {
        /// A descriptor that becomes readable after an event of the file or its folder.
        var readiness: Int32 { events.number }
        private let events: OwnedDescriptor
        private let path: String
        private let identity: FileIdentity?

        /// Watches the file at `path`, whose identity was `identity` when it was created.
        init(path: String, identity: FileIdentity?) throws(TunnelIOError) {
            func failure(_ operation: String) -> TunnelIOError {
                TunnelIOError(.eventLoop(operation: "\(operation) \(path)"), errno: errno)
            }
            let watched = OwnedDescriptor(inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)))
            let descriptor = watched.number
            guard descriptor >= 0 else { throw failure("inotify_init1") }
            let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
            let events = UInt32(IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF)
            guard unsafe inotify_add_watch(descriptor, path, UInt32(IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)) >= 0,
                unsafe inotify_add_watch(descriptor, folder.isEmpty ? "/" : folder, events) >= 0
            else { throw failure("inotify_add_watch") }
            self.events = watched
            self.path = path
            self.identity = identity
        }

        /// Reads the waiting events.
        /// - Returns: Whether the file was removed or replaced.
        func isRemoved() -> Bool {
            unsafe withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { buffer in
                while unsafe SystemCall.read(readiness, into: buffer) > 0 {}
            }
            return FileIdentity(of: path) != identity
        }
    }
#endif
