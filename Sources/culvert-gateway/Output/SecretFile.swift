// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import TunnelSystem

/// A new file that only its owner may read. It has a temporary name until ``commit()``, and is removed if that is not called.
struct SecretFile: ~Copyable {
    private let path: String
    /// The path until ``commit()``.
    let temporary: String
    private let descriptor: OwnedDescriptor

    /// Makes an empty file.
    /// - Throws: ``CommandFailure`` if the file exists or cannot be made.
    init(new path: String) throws(CommandFailure) {
        if FileStatus(of: path, followsLinks: false) != nil { throw Self.failure(path, EEXIST) }
        try self.init(beside: path)
    }

    /// Makes an empty file in the same folder.
    private init(beside path: String) throws(CommandFailure) {
        let temporary = "\(path).\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
        let number = SystemCall.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard number >= 0 else { throw Self.failure(path, errno) }
        self.path = path
        self.temporary = temporary
        descriptor = OwnedDescriptor(number)
    }

    // After `commit()`, there is no file of this name.
    deinit { unsafe _ = unlink(temporary) }

    func append(_ bytes: [UInt8]) throws(CommandFailure) {
        guard SystemCall.writeAll(descriptor.number, bytes) else { throw Self.failure(path, errno, ExitStatus.failure) }
    }

    /// Gives the complete file its name.
    /// - Throws: ``CommandFailure`` if a file has got this name since.
    func commit() throws(CommandFailure) {
        guard fsync(descriptor.number) == 0 else { throw Self.failure(path, errno, ExitStatus.failure) }
        // Unlike a rename, a link never replaces a file. Some file systems have no links.
        if unsafe link(temporary, path) == 0 { return }
        let error = errno
        guard error != EEXIST, FileStatus(of: path, followsLinks: false) == nil else {
            throw Self.failure(path, EEXIST)
        }
        guard unsafe rename(temporary, path) == 0 else { throw Self.failure(path, errno) }
    }

    private static func failure(
        _ path: String, _ error: Int32, _ status: Int32 = ExitStatus.usage
    ) -> CommandFailure {
        CommandFailure(
            "cannot write \(path): \(SystemError.words(error))", status: status,
            fix: error == EEXIST ? "remove it, or use another file" : "")
    }

    /// Writes a text to a new file, or to standard output if the path is `-`.
    static func write(_ text: String, to path: String, console: Console) throws(CommandFailure) {
        guard path != "-" else { return console.write(.output, text) }
        let file = try SecretFile(new: path)
        try file.append(Array(text.utf8))
        try file.commit()
    }

    /// Replaces the content of an existing file, which keeps its owner. A crash leaves the old or the new content.
    static func replace(_ path: String, with text: String) throws(CommandFailure) {
        guard let status = FileStatus(of: path, followsLinks: false), status.kind == .file else {
            throw CommandFailure("\(path) is not a file", status: ExitStatus.usage, fix: "use another file")
        }
        let file = try SecretFile(beside: path)
        try file.append(Array(text.utf8))
        guard status.owner == geteuid() || fchown(file.descriptor.number, status.owner, gid_t.max) == 0,
            fsync(file.descriptor.number) == 0, unsafe rename(file.temporary, path) == 0
        else { throw CommandFailure("cannot replace \(path): \(SystemError.words(errno))") }
    }
}
