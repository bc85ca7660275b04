// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Reads the event streams of Swift Testing (--event-stream-output-path) and the times of the compiler (-stats-output-dir).
//
//   test-events ended FILE...           the tests that passed or were skipped, one ID a line
//   test-events started FILE...        the tests that started and neither passed nor were skipped
//   test-events skipped FILE...        the tests and suites that were skipped: ID, tab, reason
//   test-events slowest COUNT PARALLEL FILE...
//                                       the tests that took longest, of which PARALLEL ran side by side: seconds, tab, ID
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
    var hasStarted = false
    /// Seconds in which at least one case of the test ran. Swift Testing reports the cases of tests with arguments alone: for
    /// another test these are the seconds from its start to its end, or 0 if it waited for its turn.
    var seconds: Double { caseSeconds ?? ownSeconds }
    private var caseSeconds: Double?
    private var ownSeconds = 0.0
    private var began: Double?
    private var openCases = 0
    private var openSince = 0.0
    var hasPassed = false
    var hasFailed = false
    var skipReason: String?

    // A test with arguments may leave out one case and fail with another.
    var isEnded: Bool { !hasFailed && (hasPassed || skipReason != nil) }

    mutating func start(at instant: Double, waits: Bool) {
        (hasStarted, hasFailed) = (true, false)
        began = waits ? nil : instant
    }

    mutating func end(at instant: Double) {
        if let began { ownSeconds = instant - began }
    }

    mutating func startCase(at instant: Double) {
        if openCases == 0 { openSince = instant }
        openCases += 1
    }

    mutating func endCase(at instant: Double) {
        guard openCases > 0 else { return }
        openCases -= 1
        if openCases == 0 { caseSeconds = (caseSeconds ?? 0) + instant - openSince }
    }
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
/// - Parameter parallelTests: the most tests that ran side by side in a process.
func courses(in files: some Sequence<String>, parallelTests: Int = .max) -> [String: Course] {
    let decoder = JSONDecoder()
    var courses: [String: Course] = [:]
    for file in files {
        guard let data = FileManager.default.contents(atPath: file) else { fail("\(file) cannot be read") }
        var running: Set<String> = []
        for line in data.split(separator: UInt8(ascii: "\n")) {
            guard let event = try? decoder.decode(Event.self, from: line), event.kind == "event",
                let id = event.payload.testID.map(name(of:))
                    ?? (event.payload.kind == "issueRecorded" ? "no test" : nil)
            else { continue }
            let payload = event.payload
            let instant = payload.instant?.absolute ?? 0
            switch payload.kind {
            case "testStarted":
                courses[id, default: Course()].start(at: instant, waits: running.count >= parallelTests)
                if isTest(id) { running.insert(id) }
            case "issueRecorded" where payload.messages?.first?.symbol == "fail" && !isTest(id):
                // An issue of a suite, or of no test at all: nothing else reports it.
                courses["(\(id))", default: Course()].hasStarted = true
                courses["(\(id))"]?.hasFailed = true
            case "issueRecorded" where payload.messages?.first?.symbol == "fail":
                // A test may end before the issue.
                courses[id, default: Course()].hasStarted = true
                courses[id]?.hasFailed = true
            case "testCaseStarted":
                courses[id, default: Course()].startCase(at: instant)
            case "testCaseEnded":
                courses[id, default: Course()].endCase(at: instant)
            case "testEnded":
                running.remove(id)
                courses[id, default: Course()].end(at: instant)
                let symbols = payload.messages?.map(\.symbol) ?? []
                courses[id, default: Course()].hasPassed = symbols.first?.hasPrefix("pass") == true
                if symbols.first == "fail" { courses[id]?.hasFailed = true }
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
    for (id, course) in courses(in: files) where isTest(id) && course.hasStarted && !course.isEnded { print(id) }
case ("skipped", let files) where !files.isEmpty:
    let skipped = courses(in: files).compactMap { id, course in course.skipReason.map { (id, $0) } }
    for (id, reason) in skipped.sorted(by: <) { print("\(id)\t\(reason)") }
case ("slowest", let rest) where rest.count > 2:
    let numbers = rest.prefix(2).compactMap { Int($0) }
    guard numbers.count == 2 else { fail("two numbers are expected, not '\(rest.prefix(2).joined(separator: " "))'") }
    table(
        courses(in: rest.dropFirst(2), parallelTests: numbers[1]).filter { isTest($0.key) }.mapValues(\.seconds),
        count: numbers[0])
case ("targets", let rest) where rest.count == 2:
    guard let count = rest.first.flatMap({ Int($0) }), let folder = rest.last else { fail("a count is expected") }
    do { table(try targets(in: folder), count: count) } catch { fail("\(folder) cannot be read: \(error)") }
default:
    fail("usage: test-events ended|started|skipped FILE..., slowest COUNT PARALLEL FILE..., targets COUNT FOLDER")
}
