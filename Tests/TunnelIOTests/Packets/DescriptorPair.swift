// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Two connected descriptors. The first does not block, and reads the end of file once the second is closed.
///
/// Programs that other tests start do not inherit them: they would keep the second one open.
func makeDescriptorPair() throws -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [-1, -1]
    try #require(connectedPair(&ends) == 0)
    _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    return (ends[0], ends[1])
}

/// Whether the other descriptor of a pair is closed.
func isAtEnd(_ reader: Int32) -> Bool {
    var byte: UInt8 = 0
    return unsafe read(reader, &byte, 1) == 0
}

/// Whether the other descriptor of a pair is closed, within ten seconds: a program that another test starts has copies of all descriptors
/// until it runs.
func reachesEnd(_ reader: Int32) -> Bool {
    var entry = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&entry, 1, 10_000) == 1 && isAtEnd(reader)
}

#if os(Linux)
    private func connectedPair(_ ends: inout [Int32]) -> Int32 {
        // SOCK_STREAM is 1, and SOCK_CLOEXEC is O_CLOEXEC (linux/net.h).
        unsafe socketpair(AF_UNIX, 1 | O_CLOEXEC, 0, &ends)
    }
#else
    private func connectedPair(_ ends: inout [Int32]) -> Int32 {
        unsafe socketpair(AF_UNIX, SOCK_STREAM, 0, &ends)
    }
#endif
