// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import TunnelIO

    /// Notices when the management socket's file goes: that is how `wg-quick` and people end a userspace device.
    ///
    /// Not verified on Darwin.
    final class SocketFileWatch: Sendable {
        /// A kqueue, which polls readable when something happened in the file's folder.
        let readiness: Int32
        private let folder: Int32
        private let path: String
        private let identity: FileIdentity?

        /// Watches the file at `path`, which was `identity` when it was made.
        init(path: String, identity: FileIdentity?) throws(TunnelIOError) {
            let name = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
            let folder = open(name.isEmpty ? "/" : name, O_EVTONLY | O_CLOEXEC)
            guard folder >= 0 else { throw TunnelIOError(.eventLoop(operation: "open \(name)"), errno: errno) }
            let queue = kqueue()
            var change = kevent(
                ident: UInt(folder), filter: Int16(EVFILT_VNODE), flags: UInt16(EV_ADD | EV_CLEAR),
                fflags: UInt32(NOTE_WRITE | NOTE_DELETE | NOTE_RENAME), data: 0, udata: nil)
            guard queue >= 0, unsafe kevent(queue, &change, 1, nil, 0, nil) == 0 else {
                let error = TunnelIOError(.eventLoop(operation: "kevent \(name)"), errno: errno)
                _ = systemClose(folder)
                if queue >= 0 { _ = systemClose(queue) }
                throw error
            }
            readiness = queue
            self.folder = folder
            self.path = path
            self.identity = identity
        }

        deinit {
            _ = systemClose(readiness)
            _ = systemClose(folder)
        }

        /// Takes the events that wait.
        /// - Returns: whether the file is gone, or is another one.
        func isRemoved() -> Bool {
            var event = kevent()
            var zero = timespec()
            while unsafe kevent(readiness, nil, 0, &event, 1, &zero) > 0 {}
            return FileIdentity(of: path) != identity
        }
    }
#endif
