// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// Removes keys, tokens and passwords from text before it is stored.
///
/// It finds:
/// - keys: 32 bytes as base64, padded or not, standard or URL-safe, also with `%2B`, `%2F` and `\/`; 64 or more
///   hexadecimal digits; and PEM blocks with a private key. Public keys look the same, so it removes them too.
/// - values of names such as `PrivateKey`, `preshared_key`, `token`, `pt`, `password` and `Authorization`, after `=` or
///   `:` or as the argument of an option, in any form.
/// - the text after `Bearer`.
/// - the user part of a URL, as in `https://user:password@host`.
///
/// It removes too much rather than too little: text that only resembles a key is removed too.
public enum Redactor {
    /// The replacement of a value.
    public static let placeholder = "[redacted]"
    /// The replacement of text that resembles a key.
    public static let keyPlaceholder = "[redacted key]"

    /// `text` without secrets.
    public static func redact(_ text: String) -> String {
        var scanner = RedactionScanner(Array(text.utf8))
        return scanner.redacted() ?? text
    }

    /// Returns `metadata` without secrets: it redacts every value, and replaces the whole value of a name such as
    /// `token`.
    public static func redact(_ metadata: Logger.Metadata) -> Logger.Metadata {
        var redacted: Logger.Metadata = [:]
        for (key, value) in metadata { redacted[redact(key)] = redact(value, named: key) }
        return redacted
    }

    private static func redact(_ value: Logger.MetadataValue, named name: String) -> Logger.MetadataValue {
        guard !SensitiveName.isSensitive(Array(name.utf8)[...]) else { return .string(placeholder) }
        switch value {
        case .string(let text): return .string(redact(text))
        case .stringConvertible(let object): return .string(redact(object.description))
        case .array(let values): return .array(values.map { redact($0, named: "") })
        case .dictionary(let values): return .dictionary(redact(values))
        @unknown default: return .string(redact("\(value)"))
        }
    }
}

/// The names of secrets.
enum SensitiveName {
    /// The names whose value is the rest of the line, because it may contain spaces.
    private static let wholeLine = ["privatekey", "presharedkey", "authorization", "setcookie"]
    private static let endings =
        wholeLine + [
            "token", "secret", "password", "passwd", "passphrase", "apikey", "accesskey", "credential", "psk",
        ]
    private static let exact = ["pt", "auth", "pwd", "pass", "cookie"]

    /// Whether the value of `name` is a secret. Case, `_`, `-` and a plural ending are ignored.
    static func isSensitive(_ name: ArraySlice<UInt8>) -> Bool {
        let letters = normalize(name)
        return letters.map { matches($0, endings) || exact.contains($0) } ?? false
    }

    /// Whether the secret extends to the end of the line.
    static func takesWholeLine(_ name: ArraySlice<UInt8>) -> Bool {
        normalize(name).map { matches($0, wholeLine) } ?? false
    }

    private static func matches(_ name: String, _ endings: [String]) -> Bool {
        endings.contains { name.hasSuffix($0) || name.hasSuffix($0 + "s") }
    }

    /// Returns `nil` for a word that is too short, so that most words of a log need no further check.
    private static func normalize(_ name: ArraySlice<UInt8>) -> String? {
        guard name.count >= 2 else { return nil }
        var letters: [UInt8] = []
        for byte in name where byte != UInt8(ascii: "_") && byte != UInt8(ascii: "-") && byte != UInt8(ascii: ".") {
            letters.append((UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte)
        }
        return String(decoding: letters, as: UTF8.self)
    }
}
