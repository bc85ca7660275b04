// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// Initialises a condition whose timed waits use a monotonic clock.
    func initializeForTimedWait(_ condition: UnsafeMutablePointer<pthread_cond_t>) {
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        unsafe pthread_cond_init(condition, &attributes)
        unsafe pthread_condattr_destroy(&attributes)
    }

    /// Waits for at most this long.
    func timedWait(
        _ condition: UnsafeMutablePointer<pthread_cond_t>, _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        nanoseconds: Int64
    ) {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        let end = Int64(time.tv_nsec) + nanoseconds
        time.tv_sec += Int(end / 1_000_000_000)
        time.tv_nsec = Int(end % 1_000_000_000)
        unsafe pthread_cond_timedwait(condition, mutex, &time)
    }
#endif
