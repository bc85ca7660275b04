// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The TUN device of this platform.
    public typealias SystemTun = DarwinTun
#endif
