// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    extension DaemonTests {
        @Suite("The option --aead of the programs", .timeLimit(.minutes(5)))
        struct DaemonEncryptionTests {
            private static let libraries = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map {
                "\($0)/libIPSec_MB.so.1"
            }

            /// Returns the name of the file of Intel's multi-buffer library, which has its version; `nil` if this machine lacks
            /// the library or a processor for it.
            private static func libraryFile() throws -> String? {
                let processor = try String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)
                let flags = processor.split(separator: "\n").first { $0.hasPrefix("flags") }?.split(separator: " ")
                let needed = ["avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512ifma"]
                guard needed.allSatisfy({ flags?.contains(Substring($0)) == true }) else { return nil }
                let library = libraries.first { FileManager.default.fileExists(atPath: $0) }
                return library.map { URL(fileURLWithPath: $0).resolvingSymlinksInPath().lastPathComponent }
            }

            /// A command that puts an empty file in place of the library, and runs the command after it. `ip netns exec`
            /// has made separate mounts.
            private static let withoutLibrary = [
                "sh", "-ec",
                """
                for file in \(libraries.joined(separator: " ")); do
                    [ ! -e $file ] || mount --bind /dev/null $file
                done
                exec "$@"
                """, "sh",
            ]

            @Test(
                "The library is used exactly if the machine has it, and packets pass to a daemon with BoringSSL",
                arguments: ["auto", "ipsec-mb"])
            func traffic(_ choice: String) throws {
                let hasLibrary = try Self.libraryFile() == "libIPSec_MB.so.1.3.0"
                guard choice == "auto" || hasLibrary else {
                    let result = try runAllowingFailure([
                        DaemonProgram.culvert.path, "--aead", choice, UniqueInterface.next(),
                    ])
                    #expect(result.status == 2 && result.output.contains("\n  fix: "), "\(result)")
                    return
                }
                var options = PairOptions()
                options.environment = ["CULVERT_AEAD=boringssl"]
                options.leftEnvironment = ["CULVERT_AEAD=\(choice)"]
                let pair = try TunnelPair(.culvert, .culvert, options)
                let most = options.innerMTU - 28
                try pair.ping(from: pair.left, sizes: [0, 1, 15, 16, 17, most - 1, most])
                try pair.ping(from: pair.right, sizes: [most])
                try InteropTraffic.exchange(pair, .v4)
                let name = hasLibrary ? "ipsec-mb" : "boringssl"
                #expect(pair.left.daemon.log.contains("ChaCha20-Poly1305 by \(name)"), "\(pair.left.daemon.log)")
                #expect(pair.right.daemon.log.contains("ChaCha20-Poly1305 by boringssl\n"))
            }

            /// Commands that need the library.
            static let commands = [
                [DaemonProgram.culvert.path, "cvmissing", "--aead", "ipsec-mb"],
                [DaemonProgram.culvert.path, "-f", "cvmissing", "--aead", "ipsec-mb"],
                [CulvertUpScene.program, "up", "--foreground", "/nonexistent/wg0.conf", "--aead", "ipsec-mb"],
                [CulvertUpScene.program, "gateway", "run", "--directory", "/nonexistent", "--aead", "ipsec-mb"],
            ]

            @Test("A library that cannot be used ends a program with status 2 and a fix", arguments: commands)
            func unusable(_ command: [String]) throws {
                let namespace = try Namespace()
                let result = try runAllowingFailure(
                    ["ip", "netns", "exec", namespace.name] + Self.withoutLibrary + command)
                // The units of `culvert up` and of the gateway do not restart it after this status.
                #expect(result.status == 2, "\(result)")
                #expect(result.output.contains("ipsec-mb needs ") && result.output.contains("\n  fix: "), "\(result)")
            }

            @Test("With auto, a daemon starts without a library that cannot be used, and logs the reason")
            func rejection() throws {
                let isReported = try Self.libraryFile() != nil
                let daemon = try DaemonProcess(
                    .culvert, in: try Namespace(), environment: ["CULVERT_AEAD=auto"], wrapper: Self.withoutLibrary)
                let reason = isReported ? " (ipsec-mb needs libIPSec_MB.so.1, which cannot be loaded)" : ""
                #expect(daemon.log.contains("ChaCha20-Poly1305 by boringssl\(reason)\n"), "\(daemon.log)")
            }
        }
    }
#endif
