// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A secret for a command: the first line of a file or of standard input, or typed at the terminal, which does not
/// show it. It is never an argument, which other users of the machine can read.
package struct SecretInput: Sendable {
    /// The name in messages, such as `password of 'anna'`.
    private let name: String
    /// The option that selects the file.
    private let option: String
    /// The file; `-` for standard input, `nil` for the terminal.
    private let file: String?

    package init(_ name: String, file: String?, option: String) {
        self.name = name
        self.option = option
        self.file = file
    }

    /// - Parameter isNew: Whether the secret is new. A new secret is typed twice, because a typing error would only be
    ///   found when the secret is needed.
    /// - Returns: The secret, at least one byte. The caller must overwrite it.
    package func read(isNew: Bool) throws(CommandFailure) -> [UInt8] {
        if let file { return try firstLine(of: file) }
        var typed = try ask("\(name) (not shown): ")
        guard !typed.isEmpty else { throw CommandFailure("the \(name) must not be empty", status: ExitStatus.usage) }
        guard isNew else { return typed }
        do throws(CommandFailure) {
            var again = try ask("the same again: ")
            defer { wipe(&again) }
            guard typed == again else {
                throw CommandFailure(
                    "the two inputs differ; nothing was written", status: ExitStatus.usage, fix: "try again")
            }
        } catch {
            wipe(&typed)
            throw error
        }
        return typed
    }

    private func ask(_ prompt: String) throws(CommandFailure) -> [UInt8] {
        try HiddenPrompt.read(
            prompt, for: name, otherwise: "use \(option) with a file, or with - for standard input")
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
