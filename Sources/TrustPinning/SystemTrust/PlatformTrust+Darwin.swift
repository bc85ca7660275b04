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
            // The first decides; others that cannot be read are of no use, and do no harm.
            guard let first = request.chain.first.flatMap(Self.certificate) else { return Self.unreadable }
            let list = NSArray(array: [first] + request.chain.dropFirst().compactMap(Self.certificate))
            var made: SecTrust?
            let status = unsafe SecTrustCreateWithCertificates(list as CFArray, Self.policy(for: request.host), &made)
            guard status == errSecSuccess, let trust = made else { return Self.refused }
            return verify(trust, request)
        }

        /// Verifies what the platform was shown in a handshake, with all that came along (proofs of transparency, states
        /// of revocation), under its policy for servers and no other.
        func verify(_ trust: SecTrust, _ request: SystemTrustRequest) -> SystemTrustResult {
            guard let leaf = request.chain.first.flatMap({ try? CertificateFields($0) }) else { return Self.unreadable }
            // The same of the leaf is wrong on each platform, and has the same code.
            let seconds = Int64(exactly: request.date.timeIntervalSince1970.rounded(.down)) ?? .max
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, at: seconds) {
                return .untrusted(failure)
            }
            let moment = NSDate(timeIntervalSince1970: request.date.timeIntervalSince1970) as CFDate
            guard SecTrustSetPolicies(trust, Self.policy(for: request.host)) == errSecSuccess,
                SecTrustSetVerifyDate(trust, moment) == errSecSuccess
            else { return Self.refused }
            if !roots.isEmpty {
                let anchors = NSArray(array: roots.compactMap(Self.certificate)) as CFArray
                guard SecTrustSetAnchorCertificates(trust, anchors) == errSecSuccess,
                    SecTrustSetAnchorCertificatesOnly(trust, true) == errSecSuccess
                else { return Self.refused }
            }
            var error: CFError?
            guard unsafe SecTrustEvaluateWithError(trust, &error) else { return .untrusted(Self.failure(error)) }
            guard let chain = Self.chain(of: trust) else {
                return .untrusted(SystemTrustFailure(.other, "the platform keeps the verified chain to itself"))
            }
            return .trusted(chain: chain)
        }

        /// The chain that the platform has made of what it was shown, in DER.
        static func chain(of trust: SecTrust) -> [[UInt8]]? {
            (SecTrustCopyCertificateChain(trust) as? [SecCertificate])?
                .map { Array(Data(referencing: SecCertificateCopyData($0) as NSData)) }
        }

        private static var unreadable: SystemTrustResult {
            .untrusted(SystemTrustFailure(.unreadable, "the server's certificate cannot be read"))
        }

        private static var refused: SystemTrustResult {
            .untrusted(SystemTrustFailure(.other, "the platform does not take the chain"))
        }

        private static func certificate(_ der: [UInt8]) -> SecCertificate? {
            SecCertificateCreateWithData(nil, NSData(data: Data(der)) as CFData)
        }

        private static func policy(for host: HostName) -> SecPolicy {
            SecPolicyCreateSSL(true, NSString(string: host.description) as CFString)
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
