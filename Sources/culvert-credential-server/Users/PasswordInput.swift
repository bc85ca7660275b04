// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import TunnelSystem

/// Where a password comes from: a terminal that does not show it, a file, or standard input. Never an argument, which other
/// users of the machine can read.
struct PasswordInput {
    /// Longer ones the protocol does not carry.
    static let mostBytes = 512
    static let fewestCharacters = 8

    /// The file; `-` is standard input; nil asks at the terminal.
    var file: String?
    var console: Console

    /// The password, which the caller wipes.
    func read(for login: String) throws(ServerError) -> [UInt8] {
        var password: [UInt8]
        if let file {
            password = try line(of: file)
        } else if isatty(0) == 1 {
            password = try ask("Password of '\(login)': ")
            var again = try ask("Once more: ")
            defer { wipe(&again) }
            guard password == again else {
                wipe(&password)
                throw ServerError("the passwords differ", status: ExitStatus.usage, fix: "try again")
            }
        } else {
            throw ServerError(
                "a password is asked for at a terminal, and this is none", status: ExitStatus.usage,
                fix: "give it with --password-file FILE, or - for standard input")
        }
        guard String(validating: password, as: UTF8.self).map({ $0.count >= Self.fewestCharacters }) == true,
            password.count <= Self.mostBytes
        else {
            wipe(&password)
            throw ServerError(
                "a password has \(Self.fewestCharacters) characters at least, \(Self.mostBytes) bytes at most, and is UTF-8",
                status: ExitStatus.usage, fix: "choose another one")
        }
        return password
    }

    /// The first line of a file.
    private func line(of path: String) throws(ServerError) -> [UInt8] {
        let descriptor = path == "-" ? 0 : SystemCall.open(path, O_RDONLY)
        guard descriptor >= 0 else {
            throw ServerError("\(path): \(SystemError.words(errno))", status: ExitStatus.usage)
        }
        defer { if descriptor > 0 { SystemCall.close(descriptor) } }
        guard var bytes = SystemCall.readAll(descriptor, limit: 4096) else {
            throw ServerError("\(path): \(SystemError.words(errno))", status: ExitStatus.usage)
        }
        let end = bytes.firstIndex { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") } ?? bytes.count
        bytes.removeSubrange(end...)
        return bytes
    }

    private func ask(_ question: String) throws(ServerError) -> [UInt8] {
        console.write(.error, question)
        let error = ctunnel_terminal_echo(0, 0)
        guard error == 0 else {
            throw ServerError("the terminal cannot hide what is typed: \(SystemError.words(error))")
        }
        defer {
            _ = ctunnel_terminal_echo(0, 1)
            console.write(.error, "\n")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.mostBytes + 1)
        var byte: [UInt8] = [0]
        while bytes.count <= Self.mostBytes {
            let count = unsafe byte.withUnsafeMutableBytes { unsafe SystemCall.read(0, into: $0) }
            guard count == 1, byte[0] != UInt8(ascii: "\n") else { break }
            bytes.append(byte[0])
        }
        return bytes
    }
}
