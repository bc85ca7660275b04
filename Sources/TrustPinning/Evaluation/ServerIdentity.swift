// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import X509

/// Whether a leaf is for a host, a date, and servers. These checks are of the leaf alone: they hold with and without
/// system trust.
package enum ServerIdentity {
    /// Checks a leaf; nil if nothing is wrong with it.
    ///
    /// - Parameters:
    ///   - date: seconds since 1970.
    ///   - acceptsCommonName: see ``names(of:include:acceptsCommonName:)``.
    package static func failure(
        of leaf: CertificateFields, host: HostName, at date: Int64, acceptsCommonName: Bool = false
    ) -> SystemTrustFailure? {
        if date < leaf.notBefore { return SystemTrustFailure(.notYetValid, "the certificate is not valid yet") }
        if date > leaf.notAfter { return SystemTrustFailure(.expired, "the certificate has expired") }
        if !names(of: leaf, include: host, acceptsCommonName: acceptsCommonName) {
            return SystemTrustFailure(.wrongName, "the certificate is not for this host")
        }
        if let bits = leaf.rsaKeySize, bits < minimumRSAKeySize {
            return SystemTrustFailure(
                .constraint, "the certificate's RSA key has \(bits) bits, and must have at least \(minimumRSAKeySize)")
        }
        if let usages = leaf.extendedKeyUsages, !usages.contains(.ExtendedKeyUsage.serverAuth) {
            return SystemTrustFailure(
                .wrongUsage, "the certificate is not for servers: its extended key usage lacks it")
        }
        // digitalSignature, keyEncipherment or keyAgreement: what TLS does with the key of a server.
        if let usage = leaf.keyUsage, usage & 0b1010_1000 == 0 {
            return SystemTrustFailure(.wrongUsage, "the certificate's key usage is not that of a server")
        }
        // keyCertSign: whoever has this key could make certificates for other names.
        if leaf.isAuthority || (leaf.keyUsage ?? 0) & 0b0000_0100 != 0 {
            return SystemTrustFailure(.wrongUsage, "the certificate is that of an authority, not of a server")
        }
        return nil
    }

    /// The fewest bits of a server's RSA key (CA/Browser Forum Baseline Requirements, section 6.1.5). An attacker can
    /// factor a shorter one, and then matches its pin.
    static let minimumRSAKeySize = 2048

    /// The most comparisons of names with constraints, as in Go: a chain that asks for more is refused before it is verified.
    static let maximumComparisons = 250_000

    static func compares(_ names: Int, with constraints: Int) -> SystemTrustFailure? {
        let (count, overflows) = names.multipliedReportingOverflow(by: constraints)
        guard overflows || count > maximumComparisons else { return nil }
        return SystemTrustFailure(.constraint, "the chain has too many names for its name constraints")
    }

    /// Whether names that issuers exclude (RFC 5280 section 4.2.1.10) take in the host, or one of the names that a wildcard
    /// of the leaf stands for; nil if not.
    ///
    /// Verifiers compare the leaf's names as they are written, and take the asterisk for an ordinary label: a wildcard would
    /// slip past the exclusion of a single name below it.
    static func failure(of leaf: CertificateFields, host: HostName, excluded: [String]) -> SystemTrustFailure? {
        let wildcards = (leaf.alternativeNames?.dnsNames ?? []).filter { $0.hasPrefix("*.") }.map { $0.lowercased() }
        if let failure = compares(wildcards.count, with: excluded.count) { return failure }
        for excluded in excluded {
            var name = Substring(excluded.lowercased())
            if name.hasSuffix(".") { name.removeLast() }
            // With a dot in front it is about the names below alone.
            let below = name.hasPrefix(".") ? String(name) : ".\(name)"
            let above = name.firstIndex(of: ".").map { "*\(name[$0...])" }
            let takesInHost =
                !host.isAddress
                && (name.isEmpty || Substring(host.description) == name || host.description.hasSuffix(below))
            guard !takesInHost, !wildcards.contains(where: { $0 == above || $0.hasSuffix(below) }) else {
                return SystemTrustFailure(.constraint, "an issuer of the chain excludes names of the certificate")
            }
        }
        return nil
    }

    /// Compares a host with the alternative names, as RFC 9525 section 6 says: no common names, addresses with
    /// addresses only, and a wildcard for the whole first label only, with two labels after it.
    ///
    /// - Parameter acceptsCommonName: takes the only common name of a certificate that has no alternative names at all for
    ///   its DNS name, as it is written: for old authorities that the caller names (``RootStore``), and nobody else's.
    package static func names(
        of leaf: CertificateFields, include host: HostName, acceptsCommonName: Bool = false
    ) -> Bool {
        guard let names = leaf.alternativeNames else {
            return acceptsCommonName && !host.isAddress && leaf.onlyCommonName.flatMap { try? HostName($0) } == host
        }
        if let address = host.address { return names.ipAddresses.contains(address) }
        return names.dnsNames.contains { matches($0, host) }
    }

    private static func matches(_ presented: String, _ host: HostName) -> Bool {
        guard presented.hasPrefix("*.") else {
            // A name that is none matches nothing. A final dot is not allowed in certificates.
            guard !presented.hasSuffix("."), let name = try? HostName(presented) else { return false }
            return name == host
        }
        guard let suffix = try? HostName(String(presented.dropFirst(2))), !suffix.isAddress, !presented.hasSuffix("."),
            suffix.parent != nil
        else { return false }
        return host.parent == Substring(suffix.description)
    }
}
