// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    import Provisioning
    import TrustPinning

    extension ProvisioningServer {
        /// The authorities that the system trusts.
        static func systemTrust() -> any SystemTrust { PlatformTrust() }
    }
#endif
