// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

// The implementation of `SecPKCS12Import` for executed stand-ins.
#if os(Linux)
    enum OpenSSLBundle {
        /// The PEM blocks of this kind in a bundle; `nil` if it cannot be opened.
        static func read(_ bundle: Data, _ passphrase: String, _ options: [String], _ label: String) -> [Data]? {
            for legacy in [[], ["-legacy"]] {
                guard let text = run(bundle, passphrase, options + legacy) else { continue }
                return text.components(separatedBy: "-----BEGIN \(label)-----").dropFirst().compactMap { part in
                    part.components(separatedBy: "-----END").first.flatMap {
                        Data(base64Encoded: $0, options: .ignoreUnknownCharacters)
                    }
                }
            }
            return nil
        }

        private static func run(_ bundle: Data, _ passphrase: String, _ options: [String]) -> String? {
            let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            defer { try? FileManager.default.removeItem(at: file) }
            guard (try? bundle.write(to: file)) != nil else { return nil }
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["openssl", "pkcs12", "-in", file.path, "-passin", "pass:\(passphrase)"] + options
            let output = Pipe()
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            guard (try? process.run()) != nil else { return nil }
            let text = output.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            return process.terminationStatus == 0 ? String(decoding: text, as: UTF8.self) : nil
        }
    }
#else
    enum OpenSSLBundle {
        static func read(_ bundle: Data, _ passphrase: String, _ options: [String], _ label: String) -> [Data]? { nil }
    }
#endif
