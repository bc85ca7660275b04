// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A root, an intermediate and a leaf, and variants of them: the certificates of most tests.
///
/// All dates are fixed, see ``TestDate``. Keys are the same in each run; signatures are not.
package struct TestAuthority: Sendable {
    package let root: TestCertificate
    package let intermediate: TestCertificate
    package let leaf: TestCertificate

    /// - Parameter name: A unique name; each authority has its own keys (except RSA).
    package init(
        _ name: String = "Example", algorithm: TestKey.Algorithm = .p256,
        leaf template: CertificateTemplate = CertificateTemplate()
    ) throws {
        root = try TestCertificate(.authority("\(name) Root"), key: TestKey(algorithm, "\(name) root"))
        intermediate = try TestCertificate(
            .authority("\(name) Intermediate", pathLength: 0), key: TestKey(algorithm, "\(name) intermediate"),
            issuer: root)
        leaf = try TestCertificate(template, key: TestKey(algorithm, "\(name) leaf"), issuer: intermediate)
    }

    /// The chain that a server sends: leaf and intermediate.
    package var served: [[UInt8]] { [leaf.der, intermediate.der] }

    /// Leaf, intermediate and root.
    package var whole: [[UInt8]] { [leaf.der, intermediate.der, root.der] }

    /// Another certificate from the intermediate.
    package func issue(_ template: CertificateTemplate = CertificateTemplate(), key: TestKey) throws -> TestCertificate
    {
        try TestCertificate(template, key: key, issuer: intermediate)
    }

    /// A new certificate for the leaf's key.
    package func reissuedLeaf() throws -> TestCertificate {
        try issue(leaf.template.with { $0.serialNumber += 1 }, key: leaf.key)
    }

    /// The next leaf, with the backup key.
    package func rotatedLeaf() throws -> TestCertificate {
        try issue(leaf.template.with { $0.serialNumber += 1 }, key: backupKey())
    }

    /// The key that is kept offline.
    package func backupKey() throws -> TestKey { try TestKey(.p256, "\(root.template.subject) backup") }

    /// The intermediate's key and name, certified by another root.
    package func crossSignedIntermediate(by other: TestAuthority) throws -> TestCertificate {
        try TestCertificate(intermediate.template, key: intermediate.key, issuer: other.root)
    }

    /// A chain of `count` certificates: a leaf, intermediates, and a root at the end.
    package static func longChain(_ count: Int) throws -> [TestCertificate] {
        var chain = [try TestCertificate(.authority("Long Root"), key: TestKey(.p256, "long root"))]
        for depth in stride(from: count - 2, to: 0, by: -1) {
            chain.insert(
                try TestCertificate(
                    .authority("Long Intermediate \(depth)"), key: TestKey(.p256, "long \(depth)"), issuer: chain[0]),
                at: 0)
        }
        chain.insert(try TestCertificate(key: TestKey(.p256, "long leaf"), issuer: chain[0]), at: 0)
        return chain
    }
}
