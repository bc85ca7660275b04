// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// For Apple's targets only: the present name of swift-crypto's second library, which brings the former one.
@_exported public import _CryptoExtras
