// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Gives a file its size with all its blocks, so that no write into the mapping finds the disk full; zero or errno.
    func systemAllocate(_ descriptor: Int32, byteCount: Int) -> Int32 {
        let result = posix_fallocate(descriptor, 0, off_t(byteCount))
        guard result == EOPNOTSUPP || result == EINVAL || result == ENOSYS else { return result }
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
