// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// Gives a file its size with all its blocks, so that no write into the mapping finds the disk full; zero or errno.
    func systemAllocate(_ descriptor: Int32, byteCount: Int) -> Int32 {
        var request = fstore_t(
            fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0, fst_length: off_t(byteCount),
            fst_bytesalloc: 0)
        if unsafe fcntl(descriptor, F_PREALLOCATE, &request) != 0, errno != ENOTSUP { return errno }
        return ftruncate(descriptor, off_t(byteCount)) == 0 ? 0 : errno
    }

    /// Waits for the file's lock; zero or errno.
    func systemLock(_ descriptor: Int32) -> Int32 {
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { return errno }
        }
        return 0
    }

    func systemUnlock(_ descriptor: Int32) {
        _ = flock(descriptor, LOCK_UN)
    }
#endif
