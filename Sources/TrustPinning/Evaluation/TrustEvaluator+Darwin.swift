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
        /// policies are replaced by that for servers and `host`, its date and roots by those given, and exceptions are taken
        /// from it. Other system trust is shown the chain that the platform made of it.
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
            let shown = PlatformTrustObject(trust)
            let platform = systemTrust as? PlatformTrust
            let name = try? HostName(host)
            // Whoever asks for the chain has it evaluated: what it is judged by is said first, so that one evaluation
            // serves for both.
            let (isReady, chain) = await PlatformTrust.wait {
                var isReady = false
                if let platform, let name { isReady = platform.prepare(shown, for: name, at: date) }
                return (isReady, PlatformTrust.chain(of: shown) ?? [])
            }
            guard let platform else { return await evaluate(chain: chain, host: host, port: port, at: date) }
            return await evaluate(chain: chain, host: host, port: port, at: date) { request in
                guard isReady else { return PlatformTrust.refused }
                return await PlatformTrust.wait { platform.verify(shown, request) }
            }
        }
    }
#endif
