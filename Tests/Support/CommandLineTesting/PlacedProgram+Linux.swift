// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// Puts programs into a test's folder.
    ///
    /// Another process writes the file. If this process wrote it, a child process that another test starts at that
    /// moment would inherit the open file, and the kernel would refuse to run the file ("text file busy").
    package enum PlacedProgram {
        /// Writes a script.
        ///
        /// - Parameters:
        ///   - mode: The permissions, as for `chmod`.
        /// - Throws: If the file cannot be written.
        package static func write(_ script: String, to path: String, mode: String = "755") throws {
            try run("printf %s \"$1\" > \"$2\" && chmod \"$3\" \"$2\"", [script, path, mode])
        }

        /// Copies a program with its permissions.
        ///
        /// - Throws: If the file cannot be copied.
        package static func copy(_ source: String, to path: String) throws {
            try run("cp -p \"$1\" \"$2\"", [source, path])
        }

        private static func run(_ command: String, _ arguments: [String]) throws {
            let process = try Process.run(
                URL(filePath: "/bin/sh"), arguments: ["-c", command, "sh"] + arguments)
            process.waitUntilExit()
            guard process.terminationReason == .exit, process.terminationStatus == 0 else {
                throw CocoaError(.fileWriteUnknown)
            }
        }
    }
#endif
