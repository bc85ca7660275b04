// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import FoundationEssentials
    import Synchronization
    import TunnelIO

    /// The pipe from a starting service to the command that started it.
    ///
    /// If the command ends before the tunnel is up, the service ends too.
    final class StartReport: Sendable {
        private let descriptor: Int32
        private let isOver = Atomic(false)

        /// Takes ownership of the pipe's writing end. No program inherits it.
        init(descriptor: Int32) {
            self.descriptor = descriptor
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }

        /// Ends this process with SIGTERM if the command ends before the start has a result. Closes the pipe at the
        /// command's end.
        func watch() {
            let (descriptor, report) = (descriptor, self)
            do throws(TunnelIOError) {
                _ = try LoopThread(name: "culvert-report") {
                    var entry = pollfd(fd: descriptor, events: 0, revents: 0)
                    // A pipe without a reader is in error.
                    while unsafe poll(&entry, 1, -1) < 0, errno == EINTR {}
                    if !report.isOver.load(ordering: .acquiring) { kill(getpid(), SIGTERM) }
                    close(descriptor)
                }
            } catch {
                // The command still has its time limit.
            }
        }

        /// Sends an event to the command.
        func send(_ event: StartEvent) {
            switch event {
            case .ready, .failed: isOver.store(true, ordering: .releasing)
            case .step, .warning: break
            }
            guard let line = try? JSONEncoder().encode(event) else { return }
            let bytes = Array(line) + [UInt8(ascii: "\n")]
            // The line fits into the pipe's buffer. A command that no longer reads does not need it.
            unsafe _ = write(descriptor, bytes, bytes.count)
        }
    }

    /// The events that a command reads from a starting service.
    struct StartEvents {
        private var rest: [UInt8] = []

        /// The events that `bytes` complete.
        mutating func parse(_ bytes: some Sequence<UInt8>) -> [StartEvent] {
            rest += bytes
            var events: [StartEvent] = []
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                if let event = try? JSONDecoder().decode(StartEvent.self, from: Data(rest[..<end])) {
                    events.append(event)
                }
                rest.removeSubrange(...end)
            }
            return events
        }
    }
#endif
