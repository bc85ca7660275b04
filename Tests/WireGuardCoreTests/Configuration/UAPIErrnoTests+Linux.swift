// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)

    import Glibc
    import Testing
    import WireGuardCore

    @Suite("errno numbers on Linux")
    struct UAPIErrnoTests {
        @Test(
            "Each error has the number of this system's errno.h",
            arguments: [
                (.notPermitted, EPERM), (.notFound, ENOENT), (.inputOutput, EIO), (.outOfMemory, ENOMEM),
                (.noDevice, ENODEV),
                (.invalid, EINVAL), (.protocolError, EPROTO), (.addressInUse, EADDRINUSE),
                (.addressNotAvailable, EADDRNOTAVAIL),
            ] as [(UAPIErrno, Int32)])
        func numbers(errno: UAPIErrno, number: Int32) {
            #expect(errno.number == number)
        }

        @Test("A reply carries the number")
        func reply() {
            #expect(UAPIReply.status(.addressInUse, answering: .set) == Array("errno=-98\n\n".utf8))
            #expect(UAPIReply.status(.protocolError, answering: .get) == Array("errno=71\n\n".utf8))
        }
    }

#endif
