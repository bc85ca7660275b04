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
        /// Evaluates a server by the trust object of its handshake, such as a challenge's `serverTrust`.
        ///
        /// The steps are those of ``evaluate(chain:host:port:at:)``. ``PlatformTrust`` evaluates the object itself: it
        /// replaces the object's policies by the policy for servers and `host`, sets its date and roots, and removes
        /// its exceptions. Any other system trust receives the chain that the platform built from the object.
        ///
        /// - Parameters:
        ///   - trust: The trust object. No other code may use it during the call.
        ///   - host: The name or address that the client wants to reach, not a name that the server sent.
        ///   - port: The port, used in reports only.
        ///   - date: The time at which certificates and pins must be valid.
        /// - Returns: The decision. Each error becomes a reason to refuse.
        @concurrent
        public func evaluate(
            _ trust: SecTrust, host: String, port: Int = 443, at date: Date = Date()
        ) async -> TrustDecision {
            let object = PlatformTrustObject(trust)
            let platform = systemTrust as? PlatformTrust
            let name = try? HostName(host)
            // Reading the chain evaluates the object, so prepare the object first: then one evaluation is enough.
            let (isReady, chain) = await PlatformTrust.wait {
                var isReady = false
                if let platform, let name { isReady = platform.prepare(object, for: name, at: date) }
                return (isReady, PlatformTrust.chain(of: object) ?? [])
            }
            guard let platform else { return await evaluate(chain: chain, host: host, port: port, at: date) }
            return await evaluate(chain: chain, host: host, port: port, at: date) { request in
                guard isReady else { return PlatformTrust.refused }
                return await PlatformTrust.wait { platform.verify(object, request) }
            }
        }
    }
#endif
