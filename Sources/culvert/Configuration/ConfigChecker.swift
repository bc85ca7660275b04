// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import TunnelSystem
import WireGuardCore

/// A file to check, as far as it could be read.
struct CheckedFile {
    /// The file's name in messages.
    var name: String
    /// Its bytes; `nil` if they could not be read.
    var bytes: [UInt8]?
    /// The reason that the file could not be read.
    var failure = ""
    /// Whether there is no such file.
    var isMissing = false
    /// Whether this user may not read it.
    var isForbidden = false
    /// Whether users other than its owner and its group may read it.
    var isWorldReadable = false
    /// The owner's user ID; `nil` if it is not a file.
    var owner: UInt32?
    /// Whether users other than its owner may write to it.
    var isWritableByOthers = false

    /// A file that is in memory already.
    init(name: String, bytes: [UInt8], isWorldReadable: Bool = false) {
        self.name = name
        self.bytes = bytes
        self.isWorldReadable = isWorldReadable
    }

    /// Reads the file at `path`; `-` is standard input.
    /// - Parameter isRegular: whether it must be a regular file. Another kind of file is not read, since it may be a
    ///   pipe without a writer, and gets a failure instead of bytes.
    init(path: String, isRegular: Bool = false) {
        let isInput = path == "-" && !isRegular
        name = isInput ? "standard input" : path
        let descriptor = isInput ? 0 : SystemCall.open(path, O_RDONLY | (isRegular ? O_NONBLOCK : 0))
        guard descriptor >= 0 else {
            isMissing = errno == ENOENT
            isForbidden = SystemError.isDenied(errno)
            failure = CheckedFile.reason(errno)
            return
        }
        defer { if !isInput { close(descriptor) } }
        if isRegular, FileStatus(of: descriptor)?.kind != .file {
            failure = CheckedFile.irregular
            return
        }
        bytes = SystemCall.readAll(descriptor, limit: ConfigChecker.sizeLimit)
        if bytes == nil { failure = CheckedFile.reason(errno) }
        if let status = FileStatus(of: descriptor) {
            let isFile = status.kind == .file
            isWorldReadable = isFile && status.mode & 0o004 != 0
            isWritableByOthers = status.mode & 0o022 != 0
            if isFile { owner = status.owner }
        }
    }

    /// A file that was read elsewhere.
    init(name: String, bytes: [UInt8], owner: UInt32?, mode: UInt32, errno: Int32, isRegular: Bool) {
        self.name = name
        isMissing = errno == ENOENT
        isForbidden = SystemError.isDenied(errno)
        if errno != 0 {
            failure = CheckedFile.reason(errno)
        } else if isRegular {
            self.bytes = bytes
        } else {
            failure = CheckedFile.irregular
        }
        isWorldReadable = isRegular && mode & 0o004 != 0
        isWritableByOthers = mode & 0o022 != 0
        self.owner = owner
    }

    private static let irregular = "not a regular file"

    private static func reason(_ error: Int32) -> String {
        error == EFBIG ? "longer than any configuration file" : SystemError.words(error)
    }
}

/// Implements `culvert config check`.
struct ConfigChecker {
    var console: Console
    var requiresPrivateKey = true

    /// The most bytes of a file that is read; no configuration file needs as many.
    static let sizeLimit = 4 << 20

    /// A problem as it is shown: the parser's, or one of the file itself.
    struct Problem {
        var severity: String
        var code: String
        var line: Int
        var column: Int
        var text: String
        var reason: String
        var fix: String

        init(_ error: ConfigurationError) {
            severity = error.severity.rawValue
            code = error.code.rawValue
            line = error.line
            column = error.column
            text = error.offendingText
            reason = error.reason
            fix = error.fix
        }

        /// Other users can read a secret.
        init(worldReadable file: CheckedFile) {
            severity = ConfigurationError.Severity.warning.rawValue
            code = "worldReadable"
            line = 1
            column = 1
            text = ""
            reason = "every user of this machine can read this file, which holds a secret key"
            fix = "chmod 600 \(file.name)"
        }

        var isError: Bool { severity == ConfigurationError.Severity.error.rawValue }

        func description(in file: String) -> String {
            var result = "\(file):\(line):\(column): \(severity): \(reason)\n"
            if !text.isEmpty { result += "    \(text)\n" }
            return result + "    fix: \(fix)"
        }

        var json: JSON {
            [
                "severity": .string(severity), "code": .string(code), "line": .integer(line),
                "column": .integer(column), "text": .string(text), "reason": .string(reason), "fix": .string(fix),
            ]
        }
    }

    /// Examines every file, and reports on all of them.
    /// - Returns: the exit status.
    func check(_ files: [CheckedFile], json: Bool) -> Int32 {
        var documents: [JSON] = []
        var errorCount = 0
        var warningCount = 0
        var unreadableCount = 0
        for file in files {
            guard let bytes = file.bytes else {
                unreadableCount += 1
                if !json { console.problem("culvert: \(file.name): \(file.failure)") }
                documents.append(["file": .string(file.name), "valid": false, "unreadable": .string(file.failure)])
                continue
            }
            let problems = problems(of: file, bytes)
            let errors = problems.count { $0.isError }
            errorCount += errors
            warningCount += problems.count - errors
            if json {
                documents.append([
                    "file": .string(file.name), "valid": .bool(errors == 0),
                    "problems": .array(problems.map(\.json)),
                ])
            } else {
                for problem in problems { console.line(problem.description(in: file.name)) }
                console.line("\(file.name): \(verdict(errors: errors, warnings: problems.count - errors))")
            }
        }
        if json {
            let document: JSON = [
                "files": .array(documents), "errors": .integer(errorCount), "warnings": .integer(warningCount),
                "unreadable": .integer(unreadableCount),
            ]
            console.line(document.text)
        }
        if unreadableCount > 0 { return ExitStatus.usage }
        return errorCount > 0 ? ExitStatus.failure : ExitStatus.success
    }

    private func problems(of file: CheckedFile, _ bytes: [UInt8]) -> [Problem] {
        // PostUp may give the key: wg set %i private-key FILE.
        let report = TunnelConfiguration.check(
            bytes, name: file.name, privateKey: requiresPrivateKey ? .requiredWithoutPostUp : .optional)
        var problems = (report.errors + report.warnings).map { Problem($0) }
        if file.isWorldReadable, ConfigChecker.hasSecret(bytes) { problems.append(Problem(worldReadable: file)) }
        return problems.sorted { ($0.line, $0.column) < ($1.line, $1.column) }
    }

    /// Whether a line of the file sets a secret, whether or not the rest of the file can be understood.
    private static func hasSecret(_ bytes: [UInt8]) -> Bool {
        bytes.split(separator: UInt8(ascii: "\n")).contains { line in
            let name = line.prefix { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: "#") }
            guard name.count < line.count, line[name.endIndex] == UInt8(ascii: "=") else { return false }
            let word = String(decoding: name.filter { $0 > 0x20 }, as: UTF8.self).lowercased()
            return word == "privatekey" || word == "presharedkey"
        }
    }

    private func verdict(errors: Int, warnings: Int) -> String {
        func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
        if errors == 0 { return warnings == 0 ? "ok" : "ok, with \(count(warnings, "warning"))" }
        return count(errors, "error") + (warnings == 0 ? "" : " and " + count(warnings, "warning"))
    }
}
