// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import DemoSupport
import FoundationEssentials
import TunnelSystem

/// A new folder for the files of a demonstration, which no other user can read.
struct DemoFolder {
    let path: String

    init(in place: String = FileManager.default.temporaryDirectory.path) throws(CommandFailure) {
        // mkdtemp replaces these letters.
        let placeholder = String(repeating: "X", count: 6)
        var name = Array("\(place)/culvert-gateway-demo-\(placeholder)".utf8CString)
        guard unsafe mkdtemp(&name) != nil else {
            throw CommandFailure(
                "no folder can be made in \(place): \(SystemError.text(errno))",
                fix: "name a folder that you may write to in TMPDIR")
        }
        path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}

/// A port of 127.0.0.1 that is free now, and in a moment, unless another process is very quick.
/// - Parameter kind: `SOCK_STREAM` (1) or `SOCK_DGRAM` (2), which C libraries declare as different types.
func freePort(_ kind: Int32) throws(DemoFailure) -> UInt16 {
    func open(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
    let descriptor = OwnedDescriptor(open(AF_INET, kind | 0o2_000_000, 0))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let number = descriptor.number
    let isBound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
            unsafe bind(number, pointer, length) == 0 && getsockname(number, pointer, &length) == 0
        }
    }
    guard isBound else { throw DemoFailure("no port is free: \(SystemError.words(errno))") }
    return UInt16(bigEndian: address.sin_port)
}
