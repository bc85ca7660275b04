// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    internal import Dispatch
    internal import Foundation
    internal import Security

    /// Passes a trust object to the thread that evaluates it. No other code uses the object in the meantime.
    struct PlatformTrustObject: @unchecked Sendable {
        fileprivate let object: SecTrust

        init(_ object: SecTrust) { self.object = object }
    }

    /// System trust by the platform's own verifier, with the device's trusted roots or given roots.
    public struct PlatformTrust: SystemTrust {
        private let roots: [[UInt8]]

        /// Trusts the roots that the device trusts.
        public init() { roots = [] }

        /// Trusts only these roots, in DER.
        ///
        /// - Throws: ``PinError`` if the list is empty or one of them cannot be read.
        public init(roots: [[UInt8]]) throws(PinError) {
            guard !roots.isEmpty else { throw PinError(.malformedDER, "the list of root certificates is empty") }
            for (index, der) in roots.enumerated() where Self.certificate(der) == nil {
                throw PinError(.malformedDER, "root certificate \(index + 1) cannot be read")
            }
            self.roots = roots
        }

        /// Verifies a server's chain. The platform may fetch missing certificates from the network, so this runs on a
        /// thread that may block, not on a thread of Swift's shared pool.
        @concurrent
        public func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
            // Only the first certificate must be readable. Ignore other unreadable certificates.
            guard let first = request.chain.first.flatMap(Self.certificate) else { return Self.unreadable }
            let list = NSArray(array: [first] + request.chain.dropFirst().compactMap(Self.certificate))
            var made: SecTrust?
            let status = unsafe SecTrustCreateWithCertificates(list as CFArray, Self.policy(for: request.host), &made)
            guard status == errSecSuccess, let made else { return Self.refused }
            let trust = PlatformTrustObject(made)
            return await Self.wait {
                prepare(trust, for: request.host, at: request.date) ? verify(trust, request) : Self.refused
            }
        }

        /// Sets the criteria of the evaluation: only the platform's policy for servers, the date, and these roots.
        /// Removes roots and exceptions that other code has set.
        /// - Returns: Whether the platform accepts these settings.
        func prepare(_ trust: PlatformTrustObject, for host: HostName, at date: Date) -> Bool {
            let trust = trust.object
            let moment = NSDate(timeIntervalSince1970: date.timeIntervalSince1970) as CFDate
            // Ignore the result, which only concerns exceptions that are set; here none are.
            _ = SecTrustSetExceptions(trust, nil)
            let anchors = roots.isEmpty ? nil : NSArray(array: roots.compactMap(Self.certificate)) as CFArray
            return SecTrustSetPolicies(trust, Self.policy(for: host)) == errSecSuccess
                && SecTrustSetVerifyDate(trust, moment) == errSecSuccess
                && SecTrustSetAnchorCertificates(trust, anchors) == errSecSuccess
                && SecTrustSetAnchorCertificatesOnly(trust, anchors != nil) == errSecSuccess
        }

        /// Verifies a prepared object, including the data of its handshake (certificate transparency proofs, revocation
        /// status).
        func verify(_ trust: PlatformTrustObject, _ request: SystemTrustRequest) -> SystemTrustResult {
            guard let leaf = request.chain.first.flatMap({ try? CertificateFields($0) }) else { return Self.unreadable }
            // Check the leaf with the code that all platforms share, so that failures have the same codes.
            let seconds = Int64(exactly: request.date.timeIntervalSince1970.rounded(.down)) ?? .max
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, at: seconds) {
                return .untrusted(failure)
            }
            var error: CFError?
            guard unsafe SecTrustEvaluateWithError(trust.object, &error) else {
                return .untrusted(Self.failure(error))
            }
            guard let chain = Self.chain(of: trust) else {
                return .untrusted(SystemTrustFailure(.other, "the platform does not return the verified chain"))
            }
            // Certificates that cannot be read here are old roots without constraints.
            let excluded = chain.dropFirst().flatMap { (try? CertificateFields($0))?.excludedNames ?? [] }
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, excluded: excluded) {
                return .untrusted(failure)
            }
            return .trusted(chain: chain)
        }

        /// Returns the chain that the platform built, in DER. Evaluates the object if it was not evaluated yet.
        static func chain(of trust: PlatformTrustObject) -> [[UInt8]]? {
            (SecTrustCopyCertificateChain(trust.object) as? [SecCertificate])?
                .map { Array(Data(referencing: SecCertificateCopyData($0) as NSData)) }
        }

        /// Runs work that may wait for the network, on a thread of the system that may block.
        static func wait<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
            await withCheckedContinuation { waiter in
                DispatchQueue.global(qos: .userInitiated).async { waiter.resume(returning: work()) }
            }
        }

        private static var unreadable: SystemTrustResult {
            .untrusted(SystemTrustFailure(.unreadable, "the server's certificate cannot be read"))
        }

        static var refused: SystemTrustResult {
            .untrusted(SystemTrustFailure(.other, "the platform does not accept the chain"))
        }

        private static func certificate(_ der: [UInt8]) -> SecCertificate? {
            SecCertificateCreateWithData(nil, NSData(data: Data(der)) as CFData)
        }

        private static func policy(for host: HostName) -> SecPolicy {
            SecPolicyCreateSSL(true, NSString(string: host.description) as CFString)
        }

        /// Converts an error of the platform. Does not use its text, which may contain the server's name.
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

    extension TrustEvaluator {
        /// The default system trust: the roots that the device trusts.
        public static var platformTrust: any SystemTrust { PlatformTrust() }
    }
#endif
