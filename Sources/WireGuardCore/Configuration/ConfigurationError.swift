// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An error in a configuration file, with its position and its fix.
///
/// It never contains a key. Values of `PrivateKey` and `PresharedKey`, the text after a misspelt key, and any text with
/// the length of a key are replaced by a placeholder.
public struct ConfigurationError: Error, Hashable, Sendable {
    /// The rule that the file breaks.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        case emptyFile
        case byteOrderMark
        case notUTF8
        case controlCharacter
        case invisibleCharacter
        case malformedSection
        case unknownSection
        case missingInterface
        case repeatedInterface
        case keyBeforeSection
        case missingEqualsSign
        case unknownKey
        case wrongSection
        case repeatedKey
        case emptyValue
        case emptyListItem
        case spaceInsideValue
        case invalidKey
        case zeroKey
        case missingPrivateKey
        case missingPublicKey
        case repeatedPeer
        case invalidAddress
        case repeatedAddress
        case invalidDNS
        case invalidAllowedIP
        case invalidEndpoint
        case invalidNumber
        case invalidTable
        case invalidBoolean
        /// A warning: an allowed IP has bits set after its prefix length, which are dropped.
        case hostBits
        /// A warning: two peers claim the same network, and only the later one gets it.
        case sharedAllowedIP
    }

    /// Whether the file can still be used.
    public enum Severity: String, Hashable, Sendable {
        /// The file cannot be used.
        case error
        /// The file can be used, but perhaps not as its author intended.
        case warning
    }

    /// The rule that the file breaks.
    public let code: Code
    /// Whether the file can still be used.
    public let severity: Severity
    /// The file's name, as given by the caller.
    public let file: String
    /// The line, counted from 1.
    public let line: Int
    /// The column of ``offendingText``, counted from 1 in UTF-8 bytes.
    public let column: Int
    /// The wrong text, without secrets and shortened if long; empty if something is missing.
    public let offendingText: String
    /// The reason, as a clause without capital or full stop.
    public let reason: String
    /// The remedy.
    public let fix: String
}

extension ConfigurationError: CustomStringConvertible {
    /// `file:line:column: error: reason`, then the offending text, then the fix, each on its own line.
    public var description: String {
        var text = "\(file):\(line):\(column): \(severity.rawValue): \(reason)\n"
        if !offendingText.isEmpty { text += "    \(offendingText)\n" }
        return text + "    fix: \(fix)"
    }
}

/// All errors of a configuration file, in the order of its lines.
public struct ConfigurationErrors: Error, Hashable, Sendable, CustomStringConvertible {
    /// The errors; never empty.
    public let errors: [ConfigurationError]

    init(errors: [ConfigurationError]) { self.errors = errors }

    /// The errors, one after the other.
    public var description: String { errors.map(\.description).joined(separator: "\n") }
}

/// The result of checking a configuration file.
public struct ConfigurationReport: Sendable {
    /// The configuration; `nil` if there are errors.
    public let configuration: TunnelConfiguration?
    /// The errors that make the file unusable, in the order of its lines.
    public let errors: [ConfigurationError]
    /// Possible mistakes, in the order of their lines.
    public let warnings: [ConfigurationError]

    /// The configuration.
    /// - Throws: ``errors``, if there are any.
    package func checked() throws(ConfigurationErrors) -> TunnelConfiguration {
        guard let configuration else { throw ConfigurationErrors(errors: errors) }
        return configuration
    }
}
