// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1
import TunnelSystem

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The app's description of itself in reports. Nothing is read from the device.
public struct ReportingApp: Sendable, Hashable {
    /// The bundle identifier, or an equivalent.
    public var bundleID: String
    /// The version.
    public var version: String
    /// The platform: `IOS`, `MACOS`, `LINUX`, …
    public var platform: String
    /// The version of the platform.
    public var platformVersion: String
    /// A random identifier of the installation, to count the affected installations; empty for none.
    public var vendorID: String

    /// Creates a description.
    public init(
        bundleID: String, version: String, platform: String = "", platformVersion: String = "", vendorID: String = ""
    ) {
        self.bundleID = bundleID
        self.version = version
        self.platform = platform
        self.platformVersion = platformVersion
        self.vendorID = vendorID
    }
}

/// A report of a failure, in TrustKit's JSON format, which existing report servers can read.
public struct PinFailureReport: Sendable, Hashable {
    /// The kind of failure, with TrustKit's numbers.
    public enum Result: Int64, Sendable, Hashable {
        /// No pin matched.
        case noMatchingPin = 1
        /// The chain has no system trust.
        case invalidCertificateChain = 2
    }

    /// The kind of failure.
    public let result: Result
    /// The host that the client wanted to reach.
    public let host: String
    /// The host's port.
    public let port: Int
    /// The host of the policy.
    public let notedHost: String
    /// Whether the policy includes subdomains.
    public let includesSubdomains: Bool
    /// Whether the policy refuses mismatches.
    public let enforcesPinning: Bool
    /// The hashes of the policy's pins, in base64.
    public let knownPins: [String]
    /// The verified chain or, without one, the certificates that the server sent, in DER.
    public let chain: [[UInt8]]
    /// Seconds since 1970.
    let date: Int64
    let expiry: Int64?

    /// Creates the report of an evaluation in which no pin matched or the chain lacked trust. Returns `nil` for every
    /// other result, such as refused expired pins or a malformed chain, and if the host is not pinned.
    public init?(_ evaluation: TrustEvaluation) {
        switch evaluation.decision.reason {
        case .pinningFailed, .pinMismatchAllowedByFallback, .pinMismatchPermissive, .pinMismatchAudited:
            result = .noMatchingPin
        case .trustFailed: result = .invalidCertificateChain
        default: return nil
        }
        guard let policy = evaluation.policy else { return nil }
        host = evaluation.host
        port = evaluation.port
        notedHost = evaluation.pattern?.host.description ?? ""
        includesSubdomains = evaluation.pattern.map { $0.kind != .exact } ?? true
        enforcesPinning = policy.mode == .strict && !policy.allowsSystemTrustFallback
        knownPins = policy.pins.map(\.hash.base64)
        let verified = evaluation.decision.verifiedChain
        chain = verified.isEmpty ? Array(evaluation.presentedChain.prefix(TrustEvaluator.maximumChainLength)) : verified
        date = Self.seconds(evaluation.date)
        expiry = policy.expiry.map { Self.seconds($0.date) }
    }

    private static func seconds(_ date: Date) -> Int64 {
        Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? 0
    }

    /// The report as JSON.
    public func json(app: ReportingApp) -> String {
        JSON.object(of: [
            ("app-bundle-id", .string(app.bundleID)), ("app-version", .string(app.version)),
            ("app-platform", .string(app.platform)), ("app-platform-version", .string(app.platformVersion)),
            ("app-vendor-id", .string(app.vendorID)), ("trustkit-version", "culvert"),
            ("date-time", .string(Timestamp.text(date))), ("hostname", .string(host)), ("port", .integer(port)),
            ("noted-hostname", .string(notedHost)), ("include-subdomains", .bool(includesSubdomains)),
            ("enforce-pinning", .bool(enforcesPinning)),
            (
                "validated-certificate-chain",
                .array(
                    chain.map { der in
                        .string(SwiftASN1.PEMDocument(type: "CERTIFICATE", derBytes: der).pemString + "\n")
                    })
            ),
            ("known-pins", .array(knownPins.map { .string("pin-sha256=\"\($0)\"") })),
            ("validation-result", .integer(result.rawValue)),
            ("known-pins-expiration-date", expiry.map { .string(String(Timestamp.text($0).prefix(10))) } ?? .null),
        ]).text
    }

    /// A digest that is equal for reports of the same failure, for the rate limit.
    var identity: PinHash {
        var text = [notedHost, host, String(port), String(result.rawValue)] + knownPins
        text += chain.map { PinHash(sha256Of: $0).base64 }
        return PinHash(sha256Of: Array(text.joined(separator: "\n").utf8))
    }
}
