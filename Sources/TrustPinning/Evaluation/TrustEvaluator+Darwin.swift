// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Security

    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    extension TrustEvaluator {
        /// Judges a server by the trust object of its handshake, such as a challenge's `serverTrust`.
        ///
        /// The steps are those of ``evaluate(chain:host:port:at:)``. With ``PlatformTrust``, the object itself is evaluated: its
        /// policies are replaced by that for servers and `host`, its date and roots by those given. Other system trust is
        /// shown the chain that the platform made of it.
        ///
        /// - Parameters:
        ///   - trust: what the server showed. Nothing else may use it meanwhile.
        ///   - host: the name or address that was meant to be reached, not what the server says that it is.
        ///   - port: for reports only.
        ///   - date: the moment at which certificates and pins have to be valid.
        /// - Returns: the decision. An answer always comes; what goes wrong is a reason to refuse.
        @concurrent
        public func evaluate(
            _ trust: SecTrust, host: String, port: Int = 443, at date: Date = Date()
        ) async -> TrustDecision {
            let chain = PlatformTrust.chain(of: trust) ?? []
            guard let platform = systemTrust as? PlatformTrust else {
                return await evaluate(chain: chain, host: host, port: port, at: date)
            }
            return await evaluate(chain: chain, host: host, port: port, at: date) { platform.verify(trust, $0) }
        }
    }
#endif
