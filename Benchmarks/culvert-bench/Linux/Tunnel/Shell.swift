// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization

/// Programs that run to completion, within a time limit.
enum Shell {
    /// Runs a program and returns its standard output.
    /// - Throws: An error if it cannot be run, fails, or exceeds `timeout`.
    @discardableResult
    static func run(_ words: [String], timeout: TimeInterval = 20) throws -> String {
        let process = try start(words, output: Pipe(), errors: Pipe())
        guard let output = process.standardOutput as? Pipe, let errors = process.standardError as? Pipe else {
            throw BenchmarkError("no pipe")
        }
        let isLate = Atomic<Bool>(false)
        let watch = DispatchWorkItem {
            isLate.store(true, ordering: .relaxed)
            process.terminate()
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + timeout, execute: watch)
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        watch.cancel()
        let command = words.joined(separator: " ")
        guard !isLate.load(ordering: .relaxed) else { throw BenchmarkError("'\(command)' took more than \(timeout) s") }
        guard process.terminationStatus == 0 else {
            // iperf3 prints its errors on standard output.
            let reason = String(decoding: complaint.isEmpty ? text.suffix(400) : complaint, as: UTF8.self)
            throw BenchmarkError("'\(command)' failed with status \(process.terminationStatus): \(reason)")
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Starts a program that continues to run.
    static func start(_ words: [String], output: Any? = nil, errors: Any? = nil) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output ?? FileHandle.nullDevice
        process.standardError = errors ?? FileHandle.nullDevice
        do { try process.run() } catch { throw BenchmarkError("cannot run \(words[0]): \(error)") }
        return process
    }
}
