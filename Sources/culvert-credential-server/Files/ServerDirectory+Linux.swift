// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    extension ServerDirectory.Stamp {
        static func modification(_ status: stat) -> (Int, Int) { (status.st_mtim.tv_sec, status.st_mtim.tv_nsec) }
    }
#endif
