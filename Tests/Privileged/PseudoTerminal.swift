// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A terminal that a test operates.
    final class PseudoTerminal {
        private let master: Int32
        /// The program's end of the terminal.
        let slave: Int32
        private var bytes: [UInt8] = []

        init() throws {
            // Like posix_openpt, unlockpt and ptsname, which C libraries declare only for X/Open sources.
            master = unsafe open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
            var (unlocked, number): (Int32, Int32) = (0, -1)
            guard master >= 0, unsafe ioctl(master, 0x4004_5431, &unlocked) == 0,
                unsafe ioctl(master, 0x8004_5430, &number) == 0
            else { throw CommandFailure(description: "no terminal: errno \(errno)") }
            slave = unsafe open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
            guard slave >= 0 else { throw CommandFailure(description: "no terminal: errno \(errno)") }
        }

        deinit {
            close(slave)
            close(master)
        }

        /// The output so far.
        var output: String {
            var chunk = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = unsafe read(master, &chunk, chunk.count)
                guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
                bytes += chunk[..<count]
            }
        }

        /// Waits until a program has printed a prompt this many times, then types a line followed by `end`.
        func answer(_ prompt: String, times: Int = 1, _ line: String, end: String = "\n") throws {
            try eventually("the terminal shows '\(prompt)'") {
                output.components(separatedBy: prompt).count > times
            }
            let typed = Array((line + end).utf8)
            guard unsafe write(master, typed, typed.count) == typed.count else {
                throw CommandFailure(description: "nothing can be typed: errno \(errno)")
            }
        }
    }
#endif
