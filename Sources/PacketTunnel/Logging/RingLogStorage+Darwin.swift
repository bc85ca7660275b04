// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// Allocates all blocks of a file, so that no later write finds the disk full. Returns 0 or an `errno` value.
    func allocateBlocks(_ descriptor: Int32, byteCount: Int) -> Int32 {
        var request = fstore_t(
            fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0, fst_length: off_t(byteCount),
            fst_bytesalloc: 0)
        if unsafe fcntl(descriptor, F_PREALLOCATE, &request) != 0, errno != ENOTSUP { return errno }
        return ftruncate(descriptor, off_t(byteCount)) == 0 ? 0 : errno
    }
#endif
