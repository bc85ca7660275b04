// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !canImport(Security)
    extension TrustEvaluator {
        /// The default system trust: the roots of the system's bundle.
        public static var platformTrust: any SystemTrust { RootStoreTrust() }
    }
#endif
