// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import TunnelSystem

    extension DaemonTests {
        /// The libraries, linked to C programs with the command lines of docs/culvert-c.md.
        @Suite("The C libraries")
        struct CLibraryTests {
            @Test("A C program carries packets between two tunnels", arguments: CLibrary.allCases)
            func pair(library: CLibrary) throws {
                let folder = try TemporaryFolder()
                let program = try library.link("Examples/CPair/main.c", in: folder)
                let result = try PrivilegedTests.run([program], deadline: .seconds(300))
                let lines = result.output.split(separator: "\n").map(String.init)
                #expect(lines.count == 6, "\(result)")
                #expect(lines.first == "culvert \(CulvertVersion.text)")
                #expect(lines.contains("carried 20 of 20 packets"))
                #expect(lines.contains { $0.hasPrefix("side 1: 1 of 1 peers with a session") })
                #expect(lines.contains { $0.hasPrefix("side 2: 1 of 1 peers with a session") })
                #expect(lines.suffix(2) == ["side 1 ended: 1", "side 2 ended: 2"])
            }

            @Test("A C program answers packets, and ends when they are closed")
            func packets() throws {
                let folder = try TemporaryFolder()
                let program = try CLibrary.dynamic.link("Examples/CPackets/main.c", in: folder)
                let result = try PrivilegedTests.run([program], deadline: .seconds(300))
                #expect(result.output == "culvert \(CulvertVersion.text)\n20 of 20 packets came back\n")
                // The code on the page must be in the example.
                let page = try String(contentsOfFile: CLibrary.root + "/docs/culvert-c.md", encoding: .utf8)
                let source = try String(contentsOfFile: CLibrary.root + "/Examples/CPackets/main.c", encoding: .utf8)
                let samples = page.components(separatedBy: "```c\n").dropFirst().map {
                    $0.components(separatedBy: "```")[0]
                }
                #expect(samples.count == 1 && samples.allSatisfy { source.contains($0) })
            }

            @Test("The dynamic library exports the functions of culvert.h, and nothing else that is called so")
            func exports() throws {
                let header = try String(contentsOfFile: CLibrary.header + "/culvert.h", encoding: .utf8)
                let code = header.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("///") }
                let declared = Set(
                    code.joined(separator: "\n").matches(of: /\b(culvert_[a-z_]+)\(/).map { String($0.output.1) })
                let symbols = try PrivilegedTests.run(
                    ["nm", "-D", "--defined-only", CLibrary.folder + "/libculvert-c.so"], deadline: .seconds(300))
                let exported = symbols.output.split(separator: "\n").compactMap { line -> String? in
                    let words = line.split(separator: " ")
                    guard words.count == 3, words[2].hasPrefix("culvert_") else { return nil }
                    #expect(words[1] == "T", "\(line)")
                    return String(words[2])
                }
                #expect(declared.count > 10)
                #expect(exported.sorted() == declared.sorted())
            }

            @Test("The header is correct C and C++ by itself", arguments: ["c11", "c++17"])
            func header(standard: String) throws {
                let language = standard.hasPrefix("c++") ? "c++" : "c"
                try PrivilegedTests.run(
                    [
                        "clang", "-x", language, "-std=\(standard)", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
                        "-Wno-nullability-extension", "-Wno-pragma-once-outside-header", "-Werror",
                        CLibrary.header + "/culvert.h",
                    ], deadline: .seconds(300))
            }
        }
    }

    /// A library that C programs link, built with this test bundle.
    enum CLibrary: String, CaseIterable, CustomTestStringConvertible {
        case dynamic
        case `static`

        var testDescription: String { rawValue }

        /// The folder of the libraries.
        static let folder: String = {
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            let candidates = [bundle, CommandLine.arguments.first ?? ""].map {
                URL(fileURLWithPath: $0).deletingLastPathComponent().path
            }
            return candidates.first { FileManager.default.fileExists(atPath: $0 + "/libculvert-c.so") } ?? "."
        }()

        static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().path
        static let header = root + "/Sources/CCulvert/include"

        /// Compiles a program and links it.
        /// - Parameter source: The path of the source file in the repository.
        /// - Returns: The path of the program.
        func link(_ source: String, in folder: TemporaryFolder) throws -> String {
            let (object, program) = (folder.path + "/main.o", folder.path + "/program")
            try build(
                "clang", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", Self.header, "-c",
                Self.root + "/" + source, "-o", object)
            switch self {
            case .dynamic:
                try build(
                    "clang", object, "-L", Self.folder, "-lculvert-c", "-Wl,-rpath,\(Self.folder)", "-o", program)
            case .static:
                let flags = folder.path + "/flags"
                try build("swift-autolink-extract", Self.folder + "/libculvert-c-static.a", "-o", flags)
                try build(
                    "swiftc", "-static-stdlib", object, "-L", Self.folder, "-lculvert-c-static", "@\(flags)",
                    "@\(flags)", "-ldispatch", "-lBlocksRuntime", "-lstdc++", "-o", program)
            }
            return program
        }

        private func build(_ arguments: String...) throws {
            try PrivilegedTests.run(arguments, deadline: .seconds(300))
        }
    }
#endif
