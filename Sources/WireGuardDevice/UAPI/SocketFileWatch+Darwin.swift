// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import TunnelIO
    import TunnelSystem

    /// Detects the removal of the management socket's file, by which `wg-quick` and users end a userspace device.
    ///
    /// Not verified on Darwin.
    final class SocketFileWatch: Sendable {
        /// A kqueue that becomes readable after an event in the file's folder.
        var readiness: Int32 { events.number }
        private let events: OwnedDescriptor
        private let folder: OwnedDescriptor
        private let path: String
        private let identity: FileIdentity?

        /// Watches the file at `path`, whose identity was `identity` when it was created.
        init(path: String, identity: FileIdentity?) throws(TunnelIOError) {
            let name = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
            let folder = OwnedDescriptor(
                try SystemCall.check {
                    SystemCall.open(name.isEmpty ? "/" : name, O_EVTONLY)
                } or: {
                    TunnelIOError(.eventLoop(operation: "open \(name)"), errno: $0)
                })
            let events = OwnedDescriptor(kqueue())
            let queue = events.number
            var change = unsafe kevent(
                ident: UInt(folder.number), filter: Int16(EVFILT_VNODE), flags: UInt16(EV_ADD | EV_CLEAR),
                fflags: UInt32(NOTE_WRITE | NOTE_DELETE | NOTE_RENAME), data: 0, udata: nil)
            guard queue >= 0, unsafe kevent(queue, &change, 1, nil, 0, nil) == 0 else {
                throw TunnelIOError(.eventLoop(operation: "kevent \(name)"), errno: errno)
            }
            self.events = events
            self.folder = folder
            self.path = path
            self.identity = identity
        }

        /// Reads the waiting events.
        /// - Returns: Whether the file was removed or replaced.
        func isRemoved() -> Bool {
            var event = unsafe kevent()
            var zero = timespec()
            while unsafe kevent(readiness, nil, 0, &event, 1, &zero) > 0 {}
            return FileIdentity(of: path) != identity
        }
    }
#endif
