// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// Gives a file its size with all its blocks, so that no later write finds the disk full; zero or errno.
    func allocateBlocks(_ descriptor: Int32, byteCount: Int) -> Int32 {
        var request = fstore_t(
            fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0, fst_length: off_t(byteCount),
            fst_bytesalloc: 0)
        if unsafe fcntl(descriptor, F_PREALLOCATE, &request) != 0, errno != ENOTSUP { return errno }
        return ftruncate(descriptor, off_t(byteCount)) == 0 ? 0 : errno
    }
#endif
