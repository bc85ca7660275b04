// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Reads the event streams of Swift Testing (--event-stream-output-path) and the times of the compiler (-stats-output-dir).
//
//   test-events ended FILE...           the tests that passed or were skipped, one ID a line
//   test-events started FILE...        the tests that started and neither passed nor were skipped
//   test-events skipped FILE...        the tests and suites that were skipped: ID, tab, reason
//   test-events slowest COUNT FILE...  the tests that took longest: seconds, tab, ID
//   test-events targets COUNT FOLDER   the targets whose compilation took longest: seconds of all its files, tab, target
//
// An ID is as `swift test list` prints it: Module.Suite/function(labels:).

import Foundation

struct Event: Decodable {
    struct Payload: Decodable {
        struct Instant: Decodable { var absolute: Double }
        struct Message: Decodable {
            var symbol: String
            var text: String
        }
        var kind: String
        var testID: String?
        var instant: Instant?
        var messages: [Message]?
    }
    var kind: String
    var payload: Payload
}

/// The course of one test.
struct Course {
    var began: Double?
    var ended: Double?
    var hasPassed = false
    var hasFailed = false
    var skipReason: String?

    // A test with arguments may leave out one case and fail with another.
    var isEnded: Bool { !hasFailed && (hasPassed || skipReason != nil) }
    var duration: Double { if let began, let ended { ended - began } else { 0 } }
}

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data("error: \(message)\n".utf8))
    exit(2)
}

/// Returns the ID without its last part, the place in the source, which a suite's ID lacks.
func name(of id: String) -> String {
    guard let slash = id.lastIndex(of: "/"), id[slash...].contains(".swift:") else { return id }
    return String(id[..<slash])
}

/// Returns the text between the quotation marks of `skipped: "reason"`, or the whole text without any.
func reason(in text: String) -> String {
    guard let mark = text.range(of: "skipped: \"") ?? text.range(of: "cancelled: \"") else { return "" }
    let rest = text[mark.upperBound...]
    return String(rest.hasSuffix("\"") ? rest.dropLast() : rest)
}

/// Reads event streams. Each line is an event; the last line of a process that was killed may be cut off.
func courses(in files: some Sequence<String>) -> [String: Course] {
    let decoder = JSONDecoder()
    var courses: [String: Course] = [:]
    for file in files {
        guard let data = FileManager.default.contents(atPath: file) else { fail("\(file) cannot be read") }
        for line in data.split(separator: UInt8(ascii: "\n")) {
            guard let event = try? decoder.decode(Event.self, from: line), event.kind == "event",
                let id = event.payload.testID.map(name(of:))
            else { continue }
            let payload = event.payload
            switch payload.kind {
            case "testStarted":
                courses[id, default: Course()].began = payload.instant?.absolute
            case "testEnded":
                courses[id, default: Course()].ended = payload.instant?.absolute
                let symbols = payload.messages?.map(\.symbol) ?? []
                courses[id]?.hasPassed = symbols.first?.hasPrefix("pass") == true
                courses[id]?.hasFailed = symbols.first == "fail"
            case "testSkipped", "testCancelled", "testCaseCancelled":
                let reasons = (payload.messages ?? []).map { reason(in: $0.text) }
                // Swift Testing 6.3 does not report the comment of a cancelled case.
                let missing =
                    payload.kind == "testSkipped" ? "" : "for some arguments (without IPv6, those that need it)"
                courses[id, default: Course()].skipReason = reasons.first { !$0.isEmpty } ?? missing
            default: continue
            }
        }
    }
    return courses
}

/// A suite's ID has no parentheses.
func isTest(_ id: String) -> Bool { id.hasSuffix(")") }

/// Returns the seconds that the compiler worked on each target: from the time in a file's name, when it began, until it
/// wrote the file.
func targets(in folder: String) throws -> [String: Double] {
    var seconds: [String: Double] = [:]
    for file in try FileManager.default.contentsOfDirectory(atPath: folder) {
        // stats-<microseconds>-swift-frontend-<target>-<file>-...
        let parts = file.split(separator: "-", maxSplits: 5)
        guard parts.count > 5, parts[0] == "stats", let began = Double(parts[1]),
            let ended = try FileManager.default.attributesOfItem(atPath: "\(folder)/\(file)")[.modificationDate]
                as? Date
        else { continue }
        seconds[String(parts[4]), default: 0] += max(0, ended.timeIntervalSince1970 - began / 1_000_000)
    }
    return seconds
}

func table(_ rows: [String: Double], count: Int) {
    for (name, seconds) in rows.sorted(by: { ($0.value, $1.key) > ($1.value, $0.key) }).prefix(count) {
        print("\((seconds * 10).rounded() / 10)\t\(name)")
    }
}

let arguments = CommandLine.arguments.dropFirst()
switch (arguments.first, arguments.dropFirst()) {
case ("ended", let files) where !files.isEmpty:
    for (id, course) in courses(in: files) where isTest(id) && course.isEnded { print(id) }
case ("started", let files) where !files.isEmpty:
    for (id, course) in courses(in: files) where isTest(id) && course.began != nil && !course.isEnded { print(id) }
case ("skipped", let files) where !files.isEmpty:
    let skipped = courses(in: files).compactMap { id, course in course.skipReason.map { (id, $0) } }
    for (id, reason) in skipped.sorted(by: <) { print("\(id)\t\(reason)") }
case ("slowest", let rest) where rest.count > 1:
    guard let count = rest.first.flatMap({ Int($0) }) else { fail("a count is expected, not '\(rest.first ?? "")'") }
    table(courses(in: rest.dropFirst()).filter { isTest($0.key) }.mapValues(\.duration), count: count)
case ("targets", let rest) where rest.count == 2:
    guard let count = rest.first.flatMap({ Int($0) }), let folder = rest.last else { fail("a count is expected") }
    do { table(try targets(in: folder), count: count) } catch { fail("\(folder) cannot be read: \(error)") }
default:
    fail("usage: test-events ended|started|skipped FILE..., slowest COUNT FILE..., targets COUNT FOLDER")
}
