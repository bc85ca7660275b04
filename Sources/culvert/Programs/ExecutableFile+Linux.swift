// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import TunnelSystem

    /// The file that this program was started from, without symbolic links.
    func executableFile() -> String? {
        SystemCall.linkTarget("/proc/self/exe")
    }
#endif
