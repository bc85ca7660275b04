// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    extension ServerDirectory.Stamp {
        static func modification(_ status: stat) -> (Int, Int) {
            (status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec)
        }
    }
#endif
