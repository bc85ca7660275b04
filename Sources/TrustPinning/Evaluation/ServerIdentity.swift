// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import X509

/// Checks whether a leaf is valid for a host, at a date, and for servers. The checks use the leaf only, so they apply
/// with and without system trust.
package enum ServerIdentity {
    /// Checks a leaf, and returns the first failure or `nil`.
    ///
    /// - Parameters:
    ///   - date: The date to check, in seconds since 1970.
    ///   - acceptsCommonName: See ``names(of:include:acceptsCommonName:)``.
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
        // TLS uses a server's key for digitalSignature, keyEncipherment or keyAgreement.
        if let usage = leaf.keyUsage, usage & 0b1010_1000 == 0 {
            return SystemTrustFailure(.wrongUsage, "the certificate's key usage is not that of a server")
        }
        // The usage keyCertSign would permit the owner of this key to issue certificates for other names.
        if leaf.isAuthority || (leaf.keyUsage ?? 0) & 0b0000_0100 != 0 {
            return SystemTrustFailure(.wrongUsage, "the certificate is that of an authority, not of a server")
        }
        return nil
    }

    /// The minimum size of a server's RSA key, in bits (CA/Browser Forum Baseline Requirements, section 6.1.5). An
    /// attacker who factors a shorter key can use it and match its pin.
    static let minimumRSAKeySize = 2048

    /// The maximum number of name and constraint comparisons, as in Go. A chain that needs more is refused before
    /// verification.
    static let maximumComparisons = 250_000

    static func compares(_ names: Int, with constraints: Int) -> SystemTrustFailure? {
        let (count, overflows) = names.multipliedReportingOverflow(by: constraints)
        guard overflows || count > maximumComparisons else { return nil }
        return SystemTrustFailure(.constraint, "the chain has too many names for its name constraints")
    }

    /// Checks whether issuers exclude (RFC 5280 section 4.2.1.10) the host, or a name that a wildcard of the leaf
    /// matches. Returns `nil` if they exclude neither.
    ///
    /// Verifiers treat the asterisk as an ordinary label when they compare the leaf's names with constraints. They
    /// would therefore accept a wildcard that matches an excluded name.
    static func failure(of leaf: CertificateFields, host: HostName, excluded: [String]) -> SystemTrustFailure? {
        let wildcards = (leaf.alternativeNames?.dnsNames ?? []).filter { $0.hasPrefix("*.") }.map { $0.lowercased() }
        if let failure = compares(wildcards.count, with: excluded.count) { return failure }
        for excluded in excluded {
            var name = Substring(excluded.lowercased())
            if name.hasSuffix(".") { name.removeLast() }
            // With a leading dot, a constraint excludes only subdomains, not the name itself.
            let below = name.hasPrefix(".") ? String(name) : ".\(name)"
            let above = name.firstIndex(of: ".").map { "*\(name[$0...])" }
            let excludesHost =
                !host.isAddress
                && (name.isEmpty || Substring(host.description) == name || host.description.hasSuffix(below))
            guard !excludesHost, !wildcards.contains(where: { $0 == above || $0.hasSuffix(below) }) else {
                return SystemTrustFailure(.constraint, "an issuer of the chain excludes names of the certificate")
            }
        }
        return nil
    }

    /// Compares a host with the alternative names as RFC 9525 section 6 requires. Common names are ignored, and
    /// addresses match addresses only. A wildcard must be the complete first label, followed by at least two labels.
    ///
    /// - Parameter acceptsCommonName: Whether the only common name of a certificate without alternative names counts as
    ///   its DNS name. Only for old authorities that the caller specifies (``RootStore``).
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
            // An invalid name matches nothing. A final dot is not allowed in certificates.
            guard !presented.hasSuffix("."), let name = try? HostName(presented) else { return false }
            return name == host
        }
        guard let suffix = try? HostName(String(presented.dropFirst(2))), !suffix.isAddress, !presented.hasSuffix("."),
            suffix.parent != nil
        else { return false }
        return host.parent == Substring(suffix.description)
    }
}
