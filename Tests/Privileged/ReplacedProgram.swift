// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import Foundation

    /// A program that replaces one of the system's programs until ``putBack()``. It needs a sandbox with separate
    /// mounts (scripts/sandbox).
    final class ReplacedProgram {
        enum Replacement {
            case fails, hangs, isSlow, missing
            /// These calls fail, counted from 1, before or after they take effect.
            case failsAt(ClosedRange<Int>, takesEffect: Bool)
            /// Scripts with this text fail.
            case refuses(String)
        }

        /// A copy of the system's program.
        let original: String
        private let folder: TemporaryFolder
        private let path: String
        private let namespace: [String]
        private var isReplaced = true

        /// - Parameter process: The process in whose mount namespace the program is replaced, because `ip netns exec`
        ///   creates a separate one. `nil` replaces it for processes that start later.
        init(_ name: String, _ replacement: Replacement, of process: pid_t? = nil) throws {
            namespace = process.map { ["nsenter", "--mount=/proc/\($0)/ns/mnt"] } ?? []
            folder = try TemporaryFolder()
            original = "\(folder.path)/\(name)"
            path = try PrivilegedTests.run(["sh", "-c", "readlink -f $(command -v \(name))"]).output
                .split(separator: "\n").map(String.init)[0]
            try PrivilegedTests.run(["cp", path, original])
            let script =
                switch replacement {
                case .fails, .missing: "exit 1"
                case .isSlow: "sleep 1; exec \(original) \"$@\""
                case .hangs: "echo $$ >> \(folder.path)/processes; exec sleep 100"
                case .failsAt(let calls, let takesEffect):
                    """
                    echo >> \(folder.path)/calls
                    n=$(wc -l < \(folder.path)/calls)
                    if [ $n -ge \(calls.lowerBound) ] && [ $n -le \(calls.upperBound) ]; then
                        \(takesEffect ? "\(original) \"$@\" > /dev/null" : ":")
                        exit 1
                    fi
                    exec \(original) "$@"
                    """
                case .refuses(let text):
                    """
                    case " $* " in
                    *" -f "*) ;;
                    *) exec \(original) "$@" ;;
                    esac
                    input=$(cat)
                    case "$input" in *"\(text)"*) exit 1 ;; esac
                    printf '%s' "$input" | \(original) "$@"
                    """
                }
            let file = "\(folder.path)/replacement"
            try PlacedProgram.write(
                "#!/bin/sh\n\(script)\n", to: file, mode: replacement == .missing ? "600" : "755")
            try PrivilegedTests.run(namespace + ["mount", "--bind", file, path])
        }

        /// Whether a replacement that hangs was called.
        var hasStarted: Bool { FileManager.default.fileExists(atPath: "\(folder.path)/processes") }

        /// The number of calls so far, of a replacement that counts them.
        var calls: Int {
            ((try? String(contentsOfFile: "\(folder.path)/calls", encoding: .utf8)) ?? "").count { $0 == "\n" }
        }

        /// The processes that hang, of a replacement that hangs.
        var processes: [pid_t] {
            let text = (try? String(contentsOfFile: "\(folder.path)/processes", encoding: .utf8)) ?? ""
            return text.split(separator: "\n").compactMap { pid_t($0) }
        }

        /// Restores the system's program, and ends the processes of the replacement that hang.
        func putBack() throws {
            guard isReplaced else { return }
            isReplaced = false
            try PrivilegedTests.run(namespace + ["umount", "-l", path])
            for process in processes { kill(process, SIGKILL) }
        }

        deinit { try? putBack() }
    }

    extension ReplacedProgram.Replacement: Equatable {}

    extension Privileged {
        /// `true` in scripts/sandbox, which allows tests to replace the system's programs.
        static let isSandbox =
            ((try? String(contentsOfFile: "/proc/1/cmdline", encoding: .utf8)) ?? "").contains("sandbox")
    }
#endif
