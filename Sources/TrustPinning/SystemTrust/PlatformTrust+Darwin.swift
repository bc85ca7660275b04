// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    internal import Foundation
    internal import Security

    /// System trust by the platform's own verifier, with the roots that the device trusts, or given ones.
    public struct PlatformTrust: SystemTrust {
        private let roots: [[UInt8]]

        /// Trust in the roots that the device trusts.
        public init() { roots = [] }

        /// Trust in these roots and no others, in DER.
        ///
        /// - Throws: ``PinError`` if one of them cannot be read, or if there is none.
        public init(roots: [[UInt8]]) throws(PinError) {
            guard !roots.isEmpty else { throw PinError(.malformedDER, "there is no root certificate") }
            for (index, der) in roots.enumerated() where Self.certificate(der) == nil {
                throw PinError(.malformedDER, "root certificate \(index + 1) cannot be read")
            }
            self.roots = roots
        }

        /// Verifies what a server sent. The platform may go to the network for certificates that are missing, so this
        /// leaves the caller's actor.
        @concurrent
        public func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
            guard let leafBytes = request.chain.first, let leaf = try? CertificateFields(leafBytes),
                let first = Self.certificate(leafBytes)
            else { return .untrusted(SystemTrustFailure(.unreadable, "the server's certificate cannot be read")) }
            // The same of the leaf is wrong on each platform, and has the same code.
            let seconds = Int64(exactly: request.date.timeIntervalSince1970.rounded(.down)) ?? .max
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, at: seconds) {
                return .untrusted(failure)
            }
            // Others that cannot be read are of no use, and do no harm.
            let certificates = [first] + request.chain.dropFirst().compactMap(Self.certificate)
            guard let trust = Self.trust(certificates, host: request.host, date: request.date, roots: roots) else {
                return .untrusted(SystemTrustFailure(.other, "the platform does not take the chain"))
            }
            var error: CFError?
            guard unsafe SecTrustEvaluateWithError(trust, &error) else { return .untrusted(Self.failure(error)) }
            guard let chain = SecTrustCopyCertificateChain(trust) as? [SecCertificate] else {
                return .untrusted(SystemTrustFailure(.other, "the platform keeps the verified chain to itself"))
            }
            return .trusted(chain: chain.map { Array(Data(referencing: SecCertificateCopyData($0) as NSData)) })
        }

        private static func certificate(_ der: [UInt8]) -> SecCertificate? {
            SecCertificateCreateWithData(nil, NSData(data: Data(der)) as CFData)
        }

        private static func trust(
            _ certificates: [SecCertificate], host: HostName, date: Date, roots: [[UInt8]]
        ) -> SecTrust? {
            let policy = SecPolicyCreateSSL(true, NSString(string: host.description) as CFString)
            let moment = NSDate(timeIntervalSince1970: date.timeIntervalSince1970) as CFDate
            var made: SecTrust?
            let list = NSArray(array: certificates) as CFArray
            let status = unsafe SecTrustCreateWithCertificates(list, policy, &made)
            guard status == errSecSuccess, let trust = made,
                SecTrustSetVerifyDate(trust, moment) == errSecSuccess
            else { return nil }
            guard !roots.isEmpty else { return trust }
            let anchors = NSArray(array: roots.compactMap(certificate)) as CFArray
            guard SecTrustSetAnchorCertificates(trust, anchors) == errSecSuccess,
                SecTrustSetAnchorCertificatesOnly(trust, true) == errSecSuccess
            else { return nil }
            return trust
        }

        /// The platform's own text may name the server, so only the kind of reason is taken.
        private static func failure(_ error: CFError?) -> SystemTrustFailure {
            switch error.map({ OSStatus(truncatingIfNeeded: CFErrorGetCode($0)) }) {
            case errSecCertificateExpired: SystemTrustFailure(.expired, "a certificate of the chain has expired")
            case errSecCertificateNotValidYet:
                SystemTrustFailure(.notYetValid, "a certificate of the chain is not valid yet")
            case errSecHostNameMismatch: SystemTrustFailure(.wrongName, "the certificate is not for this host")
            case errSecNotTrusted, errSecCreateChainFailed:
                SystemTrustFailure(.unknownIssuer, "no path leads from the certificate to a trusted root")
            case let status?: SystemTrustFailure(.other, "the platform does not trust the chain: \(status)")
            case nil: SystemTrustFailure(.other, "the platform does not trust the chain")
            }
        }
    }
#endif
