// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    /// The TUN device of this platform.
    public typealias SystemTun = LinuxTun
#endif
