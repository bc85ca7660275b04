// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Synchronization

#if canImport(Darwin)
    @_exported import Darwin  // os/lock.h
#endif

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/os/logger
// https://developer.apple.com/documentation/os/oslogtype
// https://developer.apple.com/documentation/os/oslogmessage
// https://developer.apple.com/documentation/os/oslogprivacy

public struct OSLogType: Equatable, RawRepresentable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let `default` = OSLogType(rawValue: 0x00)
    public static let info = OSLogType(rawValue: 0x01)
    public static let debug = OSLogType(rawValue: 0x02)
    public static let error = OSLogType(rawValue: 0x10)
    public static let fault = OSLogType(rawValue: 0x11)
}

public struct OSLogPrivacy: Sendable {
    let isPublic: Bool
    public static var `public`: OSLogPrivacy { OSLogPrivacy(isPublic: true) }
    public static var `private`: OSLogPrivacy { OSLogPrivacy(isPublic: false) }
    public static var auto: OSLogPrivacy { OSLogPrivacy(isPublic: false) }
}

public struct OSLogInterpolation: StringInterpolationProtocol {
    var text = ""

    public init(literalCapacity: Int, interpolationCount: Int) {}

    public mutating func appendLiteral(_ literal: String) { text += literal }

    public mutating func appendInterpolation(
        _ argumentString: @autoclosure @escaping () -> String, privacy: OSLogPrivacy = .auto
    ) {
        text += privacy.isPublic ? argumentString() : "<private>"
    }
}

public struct OSLogMessage: ExpressibleByStringInterpolation {
    let text: String
    public init(stringLiteral value: String) { text = value }
    public init(stringInterpolation: OSLogInterpolation) { text = stringInterpolation.text }
}

public struct Logger: Sendable {
    private let subsystem: String
    private let category: String

    public init(subsystem: String, category: String) {
        (self.subsystem, self.category) = (subsystem, category)
    }

    public func log(level: OSLogType, _ message: OSLogMessage) {
        StandInLog.add(StandInLog.Entry(subsystem: subsystem, category: category, type: level, text: message.text))
    }
}

/// The log messages of this process.
public enum StandInLog {
    public struct Entry: Equatable, Sendable {
        public let subsystem: String
        public let category: String
        public let type: OSLogType
        /// The shown text, with `<private>` for private parts.
        public let text: String
    }

    private static let log = Mutex<[Entry]>([])

    public static func entries(of subsystem: String) -> [Entry] {
        log.withLock { $0.filter { $0.subsystem == subsystem } }
    }

    static func add(_ entry: Entry) { log.withLock { $0.append(entry) } }
}
