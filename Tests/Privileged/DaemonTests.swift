// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnelTesting
    import Synchronization
    import Testing

    /// All tests that run daemons.
    ///
    /// They run one at a time, because all network namespaces share the folder of management sockets, and daemons with
    /// traffic share few processors.
    @Suite("Daemons", .serialized, .enabled(if: Privileged.isAvailable))
    enum DaemonTests {}

    /// A userspace WireGuard daemon to run.
    enum DaemonProgram: String, CaseIterable, Sendable, CustomTestStringConvertible {
        /// The daemon of this package.
        case culvert = "culvert-wg"
        /// The reference implementation.
        case wireguardGo = "wireguard-go"

        var testDescription: String { rawValue }

        /// The program's path, or its name for a search in `PATH`.
        ///
        /// `culvert-wg` is the one that was built with this test bundle; `CULVERT_WG` selects another build.
        var path: String {
            switch self {
            case .culvert: Self.culvertPath
            case .wireguardGo: rawValue
            }
        }

        private static let culvertPath: String = {
            if let path = ProcessInfo.processInfo.environment["CULVERT_WG"], !path.isEmpty { return path }
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            let candidates = [bundle, CommandLine.arguments.first ?? ""].map {
                URL(fileURLWithPath: $0).deletingLastPathComponent().appendingPathComponent("culvert-wg").path
            }
            return candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? "culvert-wg"
        }()
    }

    /// Unique names of interfaces on this machine.
    enum UniqueInterface {
        private static let count = Mutex(0)

        static func next() -> String {
            let number = count.withLock { count in
                count += 1
                return count
            }
            return "cv\(getpid() % 10_000)x\(number)"
        }
    }

    /// Waits until `condition` holds.
    /// - Throws: `CommandFailure` if it does not hold in time.
    /// - Returns: The time that it took.
    @discardableResult
    func eventually(
        _ what: String, within patience: Duration = Privileged.patience,
        pollEvery interval: Duration = .milliseconds(5),
        _ condition: () throws -> Bool
    ) throws -> Duration {
        let began = ContinuousClock.now
        guard try waitUntil(timeout: patience, pollEvery: interval, condition) else {
            throw CommandFailure(description: "not within \(patience): \(what)")
        }
        return ContinuousClock.now - began
    }

    /// A folder that is deleted with its contents when this object is released.
    final class TemporaryFolder: Sendable {
        let path: String

        init() throws {
            var template = Array(("/tmp/culvert-test-" + String(repeating: "X", count: 6)).utf8CString)
            guard unsafe mkdtemp(&template) != nil else { throw CommandFailure(description: "mkdtemp: errno \(errno)") }
            path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        /// Writes a file that only its owner can read, and returns its path.
        func write(_ text: String, to name: String) throws -> String {
            let file = path + "/" + name
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            guard unsafe chmod(file, 0o600) == 0 else { throw CommandFailure(description: "chmod: errno \(errno)") }
            return file
        }
    }
#endif
