// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// The files of `Tests/Fixtures/5dd603b`, which programs of that commit wrote (`dev/make-fixtures`).
package enum Fixtures {
    /// The variable that names another folder, in which `dev/make-fixtures` creates fixtures. Tests named `written`
    /// store their files there.
    private static let variable = "CULVERT_FIXTURES"

    /// The folder in which fixtures are being created; `nil` in ordinary test runs.
    private static let made = ProcessInfo.processInfo.environment[variable]

    /// The folder, found from this source file.
    private static let folder =
        made.map { URL(filePath: $0) }
        ?? URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/5dd603b")

    /// Returns the path for files that a test writes with the library, as an app would.
    /// - Parameter scratch: The test's own folder, which ordinary runs use.
    package static func place(_ path: String, otherwise scratch: URL) -> URL {
        made == nil ? scratch.appending(path: path) : url(path)
    }

    /// A file or folder of the fixtures. Copy it before a program uses it: git keeps neither its mode nor its owner.
    package static func url(_ path: String) -> URL { folder.appending(path: path) }

    /// The text of a file.
    package static func text(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: url(path)), as: UTF8.self)
    }

    /// The first line of a file, without its end.
    package static func line(_ path: String) throws -> String {
        try text(path).split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
    }

    /// The time at which the fixtures were created.
    package static var madeAt: Date {
        get throws {
            struct Origin: Decodable { var madeAt: Double }
            let origin = try JSONDecoder().decode(Origin.self, from: Data(contentsOf: url("fixtures.json")))
            return Date(timeIntervalSince1970: origin.madeAt)
        }
    }

    /// Copies a file or a folder, with mode 0600 for files and 0700 for folders.
    /// - Parameter destination: the path of the copy; a folder that exists receives the contents of the fixture's.
    /// - Returns: `destination`.
    @discardableResult
    package static func copy(_ path: String, to destination: String) throws -> String {
        let manager = FileManager.default
        let source = url(path).path
        let kind = try manager.attributesOfItem(atPath: source)[.type] as? FileAttributeType
        guard kind == .typeDirectory else {
            try Data(contentsOf: url(path)).write(to: URL(filePath: destination))
            try manager.setAttributes([.posixPermissions: 0o600], ofItemAtPath: destination)
            return destination
        }
        try manager.createDirectory(atPath: destination, withIntermediateDirectories: true)
        try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: destination)
        for name in try manager.contentsOfDirectory(atPath: source) {
            try copy("\(path)/\(name)", to: "\(destination)/\(name)")
        }
        return destination
    }
}
