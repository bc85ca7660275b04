// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// One block of PEM (RFC 7468).
package struct PEMDocument: Sendable, Hashable {
    package let label: String
    package let der: [UInt8]

    /// Returns the blocks of a text, in order. Other text between them, such as comments of tools, is ignored.
    package static func parse(_ text: String) throws(PinError) -> [PEMDocument] {
        var documents: [PEMDocument] = []
        var label: String?
        var body = ""
        for line in text.split(omittingEmptySubsequences: true, whereSeparator: \.isNewline) {
            let line = line.drop { $0 == " " }.prefix { $0 != " " || line.hasPrefix("-----") }
            if let open = label {
                if line == "-----END \(open)-----" {
                    guard let data = Data(base64Encoded: body), !data.isEmpty else {
                        throw PinError(.malformedPEM, "the block \(open) is not valid base64")
                    }
                    documents.append(PEMDocument(label: open, der: Array(data)))
                    label = nil
                } else {
                    guard !line.hasPrefix("-----") else {
                        throw PinError(.malformedPEM, "the block \(open) has no end")
                    }
                    // The line may be a header of the old encrypted form. Headers are not base64, so decoding will
                    // fail.
                    body += line
                }
            } else if line.hasPrefix("-----BEGIN "), line.hasSuffix("-----") {
                label = String(line.dropFirst(11).dropLast(5))
                body = ""
            }
        }
        if let label { throw PinError(.malformedPEM, "the block \(label) has no end") }
        return documents
    }
}
