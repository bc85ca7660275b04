// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// Allocates all blocks of a file, so that no later write finds the disk full. Returns 0 or an `errno` value.
    func allocateBlocks(_ descriptor: Int32, byteCount: Int) -> Int32 {
        let result = posix_fallocate(descriptor, 0, off_t(byteCount))
        guard result == EOPNOTSUPP || result == EINVAL || result == ENOSYS else { return result }
        return ftruncate(descriptor, off_t(byteCount)) == 0 ? 0 : errno
    }
#endif
