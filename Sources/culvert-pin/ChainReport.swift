// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import FoundationEssentials
import TrustPinning
import TunnelSystem

/// The certificates of a server, from its own certificate to the root.
struct ChainReport {
    /// A certificate of the report.
    struct Entry {
        var fields: CertificateFields
        /// The place in the chain, such as `leaf`, `intermediate` or `root`; `nil` if it is not known.
        var place: String?
        var isSent: Bool
        var daysLeft: Int

        init(_ fields: CertificateFields, place: String?, isSent: Bool, now: Date) {
            self.fields = fields
            self.place = place
            self.isSent = isSent
            daysLeft = PinDates.days(from: now, to: Date(timeIntervalSince1970: Double(fields.notAfter)))
        }

        var lines: [String] {
            let name = fields.subjectCommonName ?? fields.alternativeNames?.dnsNames.first ?? "(no common name)"
            let issuer = fields.isSelfIssued ? "itself" : fields.issuerCommonName ?? "(no common name)"
            let validity = "\(PinDates.text(fields.notBefore)) to \(PinDates.text(fields.notAfter))"
            let heading = [place ?? "certificate", Printable.text(name), fields.keyDescription]
            var lines = [heading.joined(separator: ", ") + (isSent ? "" : "; not sent")]
            lines.append("  issued by    \(Printable.text(issuer))")
            if let names = fields.alternativeNames, !names.dnsNames.isEmpty {
                let shown = names.dnsNames.prefix(4).map { Printable.text($0) }.joined(separator: ", ")
                let more = names.count - min(names.dnsNames.count, 4)
                lines.append("  names        \(shown)" + (more > 0 ? " and \(more) more" : ""))
            }
            lines.append("  valid        \(validity) (\(PinDates.left(daysLeft)))")
            lines.append("  spki         \(fields.keyHash)")
            lines.append("  certificate  \(fields.certificateHash)")
            if fields.isAuthority {
                lines.append("  ca pin       the spki hash; PinGuard's ca pin is the certificate hash")
            }
            return lines
        }

        var members: [JSON.Member] {
            var members: [(String, JSON)] = []
            if let place { members.append(("place", .string(place))) }
            members += [
                ("subject", fields.subjectCommonName.map { .string($0) } ?? .null),
                ("issuer", fields.issuerCommonName.map { .string($0) } ?? .null),
                ("names", .array((fields.alternativeNames?.dnsNames ?? []).map { .string($0) })),
                ("notBefore", .string(Timestamp.text(fields.notBefore))),
                ("notAfter", .string(Timestamp.text(fields.notAfter))), ("daysLeft", .integer(daysLeft)),
                ("sent", .bool(isSent)), ("certificate", .string(fields.certificateHash.description)),
            ]
            return members.map { JSON.Member(name: $0.0, value: $0.1) }
        }

        var json: JSON {
            .object(
                [
                    JSON.Member(name: "key", value: .string(fields.keyDescription)),
                    JSON.Member(name: "spki", value: .string(fields.keyHash.description)),
                ] + members)
        }
    }

    var entries: [Entry]
    /// The certificates that the server sent, but that are not in the verified chain.
    var others: [Entry]
    var failure: SystemTrustFailure?
    var sentCount: Int

    var isTrusted: Bool { failure == nil }

    init(presented: [[UInt8]], trust: SystemTrustResult, now: Date) {
        sentCount = presented.count
        let chain: [[UInt8]]
        switch trust {
        case .trusted(let verified):
            chain = verified
            failure = nil
        case .untrusted(let why):
            chain = presented
            failure = why
        }
        let isVerified = failure == nil
        entries = chain.enumerated().compactMap { index, der in
            guard let fields = try? CertificateFields(der) else { return nil }
            let place: String? =
                index == 0
                ? "leaf" : isVerified ? index == chain.count - 1 ? "root" : "intermediate" : "unverified"
            return Entry(fields, place: place, isSent: presented.contains(der), now: now)
        }
        others = presented.filter { !chain.contains($0) }.compactMap { der in
            (try? CertificateFields(der)).map {
                Entry($0, place: "not part of the verified chain", isSent: true, now: now)
            }
        }
    }

    func lines(_ target: PinTarget) -> [String] {
        let count = "\(sentCount) certificate\(sentCount == 1 ? "" : "s") sent"
        let trust = failure.map { "no: \($0.reason)" } ?? "yes"
        var lines = ["\(target.text): \(count); system trust: \(trust)", ""]
        for entry in entries + others { lines += entry.lines + [""] }
        return lines
    }

    func json(_ target: PinTarget, _ draft: PolicyDraft) -> JSON {
        [
            "host": .string(target.host.description), "port": .integer(target.port), "sent": .integer(sentCount),
            "systemTrust": .bool(isTrusted), "failure": failure.map { .string($0.reason) } ?? .null,
            "chain": .array(entries.map(\.json)), "others": .array(others.map(\.json)),
            "policy": JSON(draft.policies), "notes": .array(draft.notes.map { .string($0) }),
        ]
    }
}

/// Makes text from certificates safe for a terminal.
enum Printable {
    static func text(_ text: String) -> String {
        String(
            text.unicodeScalars.prefix(200).map { scalar in
                let isControl = scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value)
                let isFormat = scalar.properties.generalCategory == .format
                return isControl || isFormat ? "?" : Character(scalar)
            })
    }
}
