// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    internal import Dispatch
    internal import Foundation
    internal import Security

    /// A trust object on its way to where it is evaluated. Nobody else uses it meanwhile.
    struct PlatformTrustObject: @unchecked Sendable {
        fileprivate let object: SecTrust

        init(_ object: SecTrust) { self.object = object }
    }

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
        /// waits on no thread that tasks share.
        @concurrent
        public func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
            // The first decides; others that cannot be read are of no use, and do no harm.
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

        /// Says what the object is judged by: the platform's policy for servers and no other, the date, and these roots.
        /// What somebody else has allowed it (roots of theirs, exceptions) is taken from it.
        /// - Returns: whether the platform takes that.
        func prepare(_ trust: PlatformTrustObject, for host: HostName, at date: Date) -> Bool {
            let trust = trust.object
            let moment = NSDate(timeIntervalSince1970: date.timeIntervalSince1970) as CFDate
            // What that returns is about exceptions that are set: there are none, so it decides nothing here.
            _ = SecTrustSetExceptions(trust, nil)
            let anchors = roots.isEmpty ? nil : NSArray(array: roots.compactMap(Self.certificate)) as CFArray
            return SecTrustSetPolicies(trust, Self.policy(for: host)) == errSecSuccess
                && SecTrustSetVerifyDate(trust, moment) == errSecSuccess
                && SecTrustSetAnchorCertificates(trust, anchors) == errSecSuccess
                && SecTrustSetAnchorCertificatesOnly(trust, anchors != nil) == errSecSuccess
        }

        /// Verifies what was prepared, with all that came along in a handshake (proofs of transparency, states of
        /// revocation).
        func verify(_ trust: PlatformTrustObject, _ request: SystemTrustRequest) -> SystemTrustResult {
            guard let leaf = request.chain.first.flatMap({ try? CertificateFields($0) }) else { return Self.unreadable }
            // The same of the leaf is wrong on each platform, and has the same code.
            let seconds = Int64(exactly: request.date.timeIntervalSince1970.rounded(.down)) ?? .max
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, at: seconds) {
                return .untrusted(failure)
            }
            var error: CFError?
            guard unsafe SecTrustEvaluateWithError(trust.object, &error) else {
                return .untrusted(Self.failure(error))
            }
            guard let chain = Self.chain(of: trust) else {
                return .untrusted(SystemTrustFailure(.other, "the platform keeps the verified chain to itself"))
            }
            // Those that cannot be read are roots of old, which have no constraints.
            let excluded = chain.dropFirst().flatMap { (try? CertificateFields($0))?.excludedNames ?? [] }
            if let failure = ServerIdentity.failure(of: leaf, host: request.host, excluded: excluded) {
                return .untrusted(failure)
            }
            return .trusted(chain: chain)
        }

        /// The chain that the platform has made of what it was shown, in DER. It evaluates the object if nobody has yet.
        static func chain(of trust: PlatformTrustObject) -> [[UInt8]]? {
            (SecTrustCopyCertificateChain(trust.object) as? [SecCertificate])?
                .map { Array(Data(referencing: SecCertificateCopyData($0) as NSData)) }
        }

        /// Runs what may wait for the network, on a thread of the system's that may.
        static func wait<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
            await withCheckedContinuation { waiter in
                DispatchQueue.global(qos: .userInitiated).async { waiter.resume(returning: work()) }
            }
        }

        private static var unreadable: SystemTrustResult {
            .untrusted(SystemTrustFailure(.unreadable, "the server's certificate cannot be read"))
        }

        static var refused: SystemTrustResult {
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

    extension TrustEvaluator {
        /// What vouches for chains unless something else is given: the roots that the device trusts.
        public static var platformTrust: any SystemTrust { PlatformTrust() }
    }
#endif
