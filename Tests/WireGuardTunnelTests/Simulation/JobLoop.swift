// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Runs the tasks that start on its thread, and their child jobs, on that thread in the order in which they became ready. So
/// a simulation knows when all jobs are done before time advances, and it repeats exactly.
///
/// The runtime asks a hook which executor runs a job that has none. Jobs that become ready on another thread run on the
/// default executor.
final class JobLoop {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    private var jobs: [UnownedJob] = []
    private var next = 0
    /// The number of jobs that ran.
    private(set) var count = 0

    /// Whether the runtime has such a hook; it is set at the first call.
    static let isSupported: Bool = {
        guard let symbol = unsafe dlsym(dlopen(nil, 0), "swift_task_enqueueGlobal_hook") else { return false }
        unsafe symbol.assumingMemoryBound(to: Hook?.self).pointee = { job, original in
            if let loop = JobLoop.current { loop.jobs.append(job) } else { original(job) }
        }
        return true
    }()

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        unsafe pthread_key_create(&key, nil)
        return key
    }()

    private static var current: JobLoop? {
        guard let pointer = unsafe pthread_getspecific(key) else { return nil }
        return unsafe Unmanaged<JobLoop>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Runs `body` on the calling thread; its tasks belong to this loop.
    func run<Result>(_ body: () -> Result) -> Result {
        unsafe pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
        defer { pthread_setspecific(Self.key, nil) }
        return body()
    }

    /// Whether no job is ready.
    var isIdle: Bool { jobs.isEmpty }

    /// Runs jobs until none is ready.
    /// - Returns: false if the jobs do not end.
    func runUntilIdle() -> Bool {
        // The executor of jobs that have none.
        let generic = unsafe unsafeBitCast((UInt(0), UInt(0)), to: UnownedSerialExecutor.self)
        var limit = 1_000_000
        while next < jobs.count {
            let job = jobs[next]
            next += 1
            if next == jobs.count {
                jobs.removeAll(keepingCapacity: true)
                next = 0
            }
            unsafe job.runSynchronously(on: generic)
            count += 1
            limit -= 1
            if limit == 0 { return false }
        }
        return true
    }
}
