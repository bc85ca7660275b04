// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A secret that a command is given: the first line of a file or of standard input, or typed at the terminal, which does not
/// show it. Never an argument, which other users of the machine can read.
package struct SecretInput: Sendable {
    /// What it is called: `password of 'anna'`.
    private let name: String
    /// The option that names the file.
    private let option: String
    /// The file; `-` is standard input; nil asks at the terminal.
    private let file: String?

    package init(_ name: String, file: String?, option: String) {
        self.name = name
        self.option = option
        self.file = file
    }

    /// - Parameter isNew: whether nothing knows it yet. It is typed twice then: a typing error would show only when the secret
    ///   is needed.
    /// - Returns: the secret, at least one byte, which the caller wipes.
    package func read(isNew: Bool) throws(CommandFailure) -> [UInt8] {
        if let file { return try firstLine(of: file) }
        var typed = try ask("\(name) (not shown): ")
        guard !typed.isEmpty else { throw CommandFailure("no \(name) was typed", status: ExitStatus.usage) }
        guard isNew else { return typed }
        do throws(CommandFailure) {
            var again = try ask("the same again: ")
            defer { wipe(&again) }
            guard typed == again else {
                throw CommandFailure(
                    "what was typed differs; nothing was written", status: ExitStatus.usage, fix: "try again")
            }
        } catch {
            wipe(&typed)
            throw error
        }
        return typed
    }

    private func ask(_ prompt: String) throws(CommandFailure) -> [UInt8] {
        try HiddenPrompt.read(
            prompt, for: name, otherwise: "name a file that has it with \(option), or - for standard input")
    }

    private func firstLine(of path: String) throws(CommandFailure) -> [UInt8] {
        let descriptor = path == "-" ? 0 : SystemCall.open(path, O_RDONLY)
        defer { if descriptor > 0 { SystemCall.close(descriptor) } }
        guard descriptor >= 0, var bytes = SystemCall.readAll(descriptor, limit: 4096) else {
            throw CommandFailure(
                "\(path == "-" ? "standard input" : path): \(SystemError.words(errno))", status: ExitStatus.usage)
        }
        defer { wipe(&bytes) }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty else {
            throw CommandFailure(
                "\(path == "-" ? "standard input" : path) has no \(name)", status: ExitStatus.usage,
                fix: "write it in the first line")
        }
        return Array(line)
    }
}
