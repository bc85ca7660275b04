// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

@testable import CommandLineSupport

@Suite("Secrets for a command")
struct SecretInputTests {
    private func read(_ contents: String?) throws -> Result<[UInt8], CommandFailure> {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("secret-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("secret")
        if let contents { try Data(contents.utf8).write(to: file) }
        let input = SecretInput("password", file: file.path, option: "--password-file")
        return Result { () throws(CommandFailure) in try input.read(isNew: true) }
    }

    @Test(
        "A file's first line is the secret, with any line ending or none",
        arguments: ["a word", "a word\n", "a word\r\n", "a word\nand another\n"])
    func firstLine(_ contents: String) throws {
        #expect(try read(contents) == .success(Array("a word".utf8)))
    }

    @Test("A file without a secret is refused, and the error names the file", arguments: ["", "\n", "\r\nlater"])
    func nothing(_ contents: String) throws {
        let failure = #expect(throws: CommandFailure.self) { try read(contents).get() }
        #expect(failure?.reason.hasSuffix("/secret has no password") == true && failure?.fix.isEmpty == false)
        #expect(failure?.status == ExitStatus.usage)
    }

    @Test("A file that is missing or too long is refused, and the error names the file")
    func unreadable() throws {
        let missing = #expect(throws: CommandFailure.self) { try read(nil).get() }
        #expect(missing?.reason.contains("/secret: No such file") == true)
        let long = #expect(throws: CommandFailure.self) { try read(String(repeating: "x", count: 4097)).get() }
        #expect(long?.reason.contains("/secret: File too large") == true)
        #expect(try read(String(repeating: "x", count: 4096)).get().count == 4096)
    }
}
