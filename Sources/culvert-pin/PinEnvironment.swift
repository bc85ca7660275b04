// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import FoundationEssentials
import TrustPinning
import TrustPinningNIO
import TunnelSystem

/// The console, the time and the probe of servers that the pin commands use. Tests replace them.
struct PinEnvironment: Sendable {
    var console: Console
    var now: Date
    var probe: ServerProbe

    static var standard: PinEnvironment { PinEnvironment(console: .standard, now: Date(), probe: ServerProbe()) }

    /// The maximum size of a file with a policy, certificates or keys, in bytes.
    static let fileLimit = 1 << 20

    /// Reads a whole file; `-` is standard input.
    func read(_ path: String) throws(PinToolError) -> [UInt8] {
        try PinEnvironment.read(path, limit: PinEnvironment.fileLimit)
    }

    /// Reads a policy in JSON, as an app would.
    func policies(_ path: String, environment: String?) throws(PinToolError) -> TrustConfiguration {
        let bytes = try read(path)
        var configuration: TrustConfiguration
        do {
            configuration = try TrustConfiguration(json: bytes)
            if let environment { try configuration.select(TrustEnvironment(rawValue: environment)) }
        } catch {
            throw PinToolError(error.problems.map { "\(path): \($0)" }.joined(separator: "\n"))
        }
        return configuration
    }

    /// Reads the certificates, requests and keys of a file.
    func keySources(_ path: String) throws(PinToolError) -> [KeySource] {
        let bytes = try read(path)
        do {
            let text = String(validating: bytes, as: UTF8.self)
            if let text, text.contains("-----BEGIN ") { return try KeySource.read(pem: text) }
            return [try KeySource(der: bytes)]
        } catch {
            throw PinToolError("\(path): \(error)")
        }
    }

    /// Reads the certificates of a file.
    func certificates(_ path: String) throws(PinToolError) -> [[UInt8]] {
        let certificates = try keySources(path).compactMap(\.certificate)
        guard !certificates.isEmpty else { throw PinToolError("\(path): the file contains no certificate") }
        return certificates
    }

    func systemTrust(roots path: String?) throws(PinToolError) -> RootStoreTrust {
        guard let path else { return RootStoreTrust() }
        do {
            return RootStoreTrust(roots: try .certificates(try certificates(path)))
        } catch let error as PinError {
            throw PinToolError("\(path): \(error)")
        } catch let error as PinToolError {
            throw error
        } catch {
            throw PinToolError("\(path): \(error)")
        }
    }

    func fail(_ error: PinToolError) -> Int32 {
        console.problem("culvert: \(error.reason)")
        return ExitStatus.usage
    }

    static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    private static func read(_ path: String, limit: Int) throws(PinToolError) -> [UInt8] {
        let descriptor = path == "-" ? 0 : SystemCall.open(path, O_RDONLY)
        guard descriptor >= 0 else { throw PinToolError("\(path): \(reason())") }
        defer { if descriptor > 0 { close(descriptor) } }
        guard let bytes = SystemCall.readAll(descriptor, limit: limit) else {
            throw PinToolError("\(path): \(reason())")
        }
        return bytes
    }

    private static func reason() -> String { SystemError.words(errno) }
}

/// The error of a pin command.
struct PinToolError: Error {
    var reason: String

    init(_ reason: String) { self.reason = reason }
}

/// The server that an argument of the command line names.
struct PinTarget {
    var host: HostName
    var port: Int

    /// Reads `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or an IPv6 address.
    init(_ text: String) throws(PinToolError) {
        guard !text.contains("://") else {
            throw PinToolError("'\(text)' is a URL: enter its host, followed by :PORT unless the port is 443")
        }
        var name = Substring(text)
        var port = 443
        let isBare = text.count(where: { $0 == ":" }) > 1 && !text.hasPrefix("[")
        if !isBare, let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
            guard let number = Int(text[text.index(after: colon)...]), (1...65_535).contains(number) else {
                throw PinToolError(
                    "'\(text)' is not a valid server: the colon must be followed by a port from 1 to 65535")
            }
            port = number
            name = text[..<colon]
        }
        do {
            host = try HostName(String(name))
        } catch {
            throw PinToolError("'\(text)' is not a valid host: \(error)")
        }
        self.port = port
    }

    /// Reads an address for `ServerProbe`, and adds the default port if it has none.
    static func place(_ text: String) throws(PinToolError) -> String {
        do {
            let target = try PinTarget(text)
            let name = target.host.description.contains(":") ? "[\(target.host)]" : target.host.description
            return "\(name):\(target.port)"
        } catch {
            throw PinToolError("--connect: \(error.reason)")
        }
    }

    var text: String {
        guard port != 443 else { return host.description }
        return host.description.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// Formats days and dates for the output of the pin commands.
enum PinDates {
    static func text(_ date: Date) -> String { text(Int64(date.timeIntervalSince1970.rounded(.down))) }

    /// The day, in UTC.
    static func text(_ seconds: Int64) -> String { String(Timestamp.text(seconds).prefix(10)) }

    /// Returns the whole days from `now` until `end`; negative if `end` is in the past.
    static func days(from now: Date, to end: Date) -> Int {
        Int((end.timeIntervalSince(now) / 86_400).rounded(.down))
    }

    static func left(_ days: Int) -> String {
        switch days {
        case ..<0: "expired"
        case 1: "1 day left"
        default: "\(days) days left"
        }
    }
}

extension JSON {
    init(_ policies: PolicySet) { self = (try? JSON.read(policy: Array(policies.json.utf8))) ?? .null }
}
