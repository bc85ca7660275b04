// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import TunnelSystem

    /// A folder for what a demonstration writes: nobody had it before, and nobody else may read it.
    struct DemoFolder {
        let path: String

        init(in place: String = FileManager.default.temporaryDirectory.path) throws(CommandFailure) {
            // mkdtemp puts what it likes in place of these letters.
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
#endif
