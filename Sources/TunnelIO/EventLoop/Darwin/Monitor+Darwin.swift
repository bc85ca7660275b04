// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// A condition for waits of a given length.
    func initializeForTimedWait(_ condition: UnsafeMutablePointer<pthread_cond_t>) {
        unsafe pthread_cond_init(condition, nil)
    }

    /// Waits for at most this long.
    func timedWait(
        _ condition: UnsafeMutablePointer<pthread_cond_t>, _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        nanoseconds: Int64
    ) {
        var time = timespec(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        unsafe pthread_cond_timedwait_relative_np(condition, mutex, &time)
    }
#endif
