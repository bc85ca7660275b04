// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import TunnelSystem

/// A new file that only its owner may read from its creation on.
struct SecretFile: ~Copyable {
    private let path: String
    private let descriptor: OwnedDescriptor

    /// Makes an empty file.
    /// - Throws: ``CommandFailure`` if the file exists or cannot be made.
    init(new path: String) throws(CommandFailure) {
        let number = SystemCall.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard number >= 0 else {
            throw CommandFailure(
                "cannot write \(path): \(SystemError.words(errno))", status: ExitStatus.usage,
                fix: errno == EEXIST ? "remove it, or use another file" : "")
        }
        self.path = path
        descriptor = OwnedDescriptor(number)
    }

    func write(_ text: String) throws(CommandFailure) { try write(Array(text.utf8)) }

    func write(_ bytes: [UInt8]) throws(CommandFailure) {
        guard SystemCall.writeAll(descriptor.number, bytes), fsync(descriptor.number) == 0 else {
            let error = errno
            discard()
            throw CommandFailure("cannot write \(path): \(SystemError.words(error))")
        }
    }

    /// Removes the file.
    func discard() { unsafe _ = unlink(path) }

    /// Writes a new file; `-` is standard output.
    static func write(_ text: String, to path: String, console: Console) throws(CommandFailure) {
        guard path != "-" else { return console.write(.output, text) }
        try SecretFile(new: path).write(text)
    }

    /// Replaces the content of an existing file, which keeps its owner. A crash leaves the old or the new content.
    static func replace(_ path: String, with text: String) throws(CommandFailure) {
        guard let status = FileStatus(of: path, followsLinks: false), status.kind == .file else {
            throw CommandFailure("\(path) is not a file", status: ExitStatus.usage, fix: "use another file")
        }
        let new = "\(path).new"
        let file = try SecretFile(new: new)
        try file.write(text)
        guard status.owner == geteuid() || fchown(file.descriptor.number, status.owner, gid_t.max) == 0,
            unsafe rename(new, path) == 0
        else {
            let error = errno
            file.discard()
            throw CommandFailure("cannot replace \(path): \(SystemError.words(error))")
        }
    }
}
