// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import TunnelIO

extension SignalledRun {
    /// - Parameter followsOutput: whether the run is also cancelled when the reader of standard output closes it, as in
    ///   `culvert log --follow | head`: for commands that do not end by themselves.
    static func run(followsOutput: Bool, _ work: @escaping @Sendable () async -> Int32) -> Int32 {
        run(beside: { if followsOutput { watchOutput() } }, work)
    }

    private static func watchOutput() {
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-output") {
                // Output to a pipe without a reader, or to a closed socket, would be lost.
                var entry = pollfd(fd: 1, events: 0, revents: 0)
                while unsafe poll(&entry, 1, -1) < 0, errno == EINTR {}
                if entry.revents & Int16(POLLERR | POLLHUP) != 0 { kill(getpid(), SIGTERM) }
            }
        } catch {
            // Without the thread, the run can still be interrupted.
        }
    }
}
