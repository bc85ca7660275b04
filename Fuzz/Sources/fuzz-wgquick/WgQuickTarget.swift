// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// wg-quick text: accepted text is unchanged when it is written and read again; an error is at an existing position, and its
/// text contains no secret.
func fuzzWgQuick(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let requiresPrivateKey = input.byte() & 1 == 1
    let text = input.rest()
    let report = TunnelConfiguration.check(text, name: "f", requiresPrivateKey: requiresPrivateKey)

    require(
        (report.configuration == nil) == !report.errors.isEmpty, "neither a configuration nor errors, or both")
    let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    for error in report.errors { checkPlace(error, .error, lines) }
    for warning in report.warnings { checkPlace(warning, .warning, lines) }
    checkSecrets(report.errors + report.warnings, text, lines)

    if let configuration = report.configuration { checkRoundTrip(configuration, requiresPrivateKey) }
}

private func checkPlace(
    _ error: ConfigurationError, _ severity: ConfigurationError.Severity, _ lines: [ArraySlice<UInt8>]
) {
    require(error.severity == severity, "wrong severity: \(error)")
    require(error.line >= 1 && error.line <= lines.count, "line \(error.line) of \(lines.count): \(error)")
    let width = lines[error.line - 1].count
    require(error.column >= 1 && error.column <= width + 1, "column \(error.column) of \(width): \(error)")
    require(!error.reason.isEmpty && !error.fix.isEmpty, "an error without reason or fix: \(error)")
}

/// No message repeats the value of a line that holds a secret, unless the file has it in another place too.
private func checkSecrets(_ errors: [ConfigurationError], _ text: [UInt8], _ lines: [ArraySlice<UInt8>]) {
    guard !errors.isEmpty else { return }
    let messages = errors.map { Array($0.description.utf8) }
    for line in lines {
        guard let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
        let key = String(decoding: line[..<equals], as: UTF8.self).lowercased()
        guard key.contains("privatekey") || key.contains("presharedkey") else { continue }
        let value = line[(equals + 1)...]
        // Only text that is long enough not to be a coincidence, and is clearly the value of one key.
        let word = value.drop { $0 == 0x20 || $0 == 0x09 }.prefix { $0 > 0x20 && $0 < 0x7f && $0 != 0x23 }
        guard word.count >= 43, occurrences(of: word.prefix(43), in: text) == 1 else { continue }
        for message in messages {
            require(
                occurrences(of: word.prefix(43), in: message) == 0, "a message repeats a secret: \(message.count) bytes"
            )
        }
    }
}

private func occurrences(of word: ArraySlice<UInt8>, in text: [UInt8]) -> Int {
    guard text.count >= word.count else { return 0 }
    return (0...(text.count - word.count)).count { text[$0..<($0 + word.count)].elementsEqual(word) }
}

private func checkRoundTrip(_ configuration: TunnelConfiguration, _ requiresPrivateKey: Bool) {
    let text: String
    do {
        text = try configuration.wgQuickText()
    } catch {
        finding("what was read cannot be written: \(error)")
    }
    do {
        let again = try TunnelConfiguration.parse(text, requiresPrivateKey: requiresPrivateKey)
        require(again == configuration, "write and read changes it:\n\(text)")
        let second = try again.wgQuickText()
        require(second == text, "writing is not stable:\n\(text)\n\(second)")
    } catch {
        finding("what was written cannot be read: \(error)\n\(text)")
    }
    // Into a device: every host name gets an address, and the resulting request is read back unchanged.
    do {
        let update = try configuration.deviceUpdate { address in
            address.endpoint ?? Endpoint(address: .v4(0x7f00_0001), port: address.port)
        }
        var request: [UInt8] = []
        update.appendRequest(to: &request)
        var parser = UAPIRequestParser(resolveZone: { UInt32($0) })
        parser.feed(request)
        guard case .success(.set(let parsed))? = parser.next() else { finding("the request is not understood") }
        require(parsed == update, "the request says something else")
    } catch {
        finding("no device update: \(error)")
    }
}
