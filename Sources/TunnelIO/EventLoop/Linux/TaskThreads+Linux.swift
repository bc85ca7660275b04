// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    #if compiler(>=6.3) && compiler(<6.4)
        @_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

        /// Threads that run the tasks of a process in place of libdispatch, which counts its threads once a second for as
        /// long as the process lives. A thread without work waits without a time limit.
        ///
        /// Jobs start in the order in which they arrive; their priorities are ignored. If no thread has taken a job for
        /// ``patience`` while one waits, all threads may be blocked, so one more starts. It ends when no job waits.
        final class TaskThreads: TaskExecutor, SchedulingExecutor {
            private struct Jobs {
                /// The jobs in the order of their arrival, and the jobs before them in the reverse order.
                private var (arrived, next): ([UnownedJob], [UnownedJob]) = ([], [])
                /// The number of jobs that threads have taken, now and when the loop last compared it.
                private var (taken, compared): (UInt64, UInt64) = (0, 0)
                var threadCount = 0
                /// The number of threads that wait for a job, or have been woken but have not taken one yet.
                var idleCount = 0
                /// Whether the loop compares the number of taken jobs.
                var isWatched = false
                /// The number of times in succession that the system has refused both a thread and the timers.
                var refusals = 0

                /// Whether jobs wait for which no thread is idle.
                var lacksThreads: Bool { arrived.count + next.count > idleCount }

                mutating func append(_ job: UnownedJob) { arrived.append(job) }

                mutating func takeFirst() -> UnownedJob? {
                    if next.isEmpty {
                        next = arrived.reversed()
                        arrived.removeAll(keepingCapacity: true)
                    }
                    guard let job = next.popLast() else { return nil }
                    taken &+= 1
                    return job
                }

                /// Whether no job was taken since the last call.
                mutating func isStuck() -> Bool {
                    defer { compared = taken }
                    return compared == taken
                }
            }

            private struct SleepingJob {
                var job: UnownedJob
                var deadline: Int64
            }

            private struct Timers {
                var loop: EventLoop
                var sleep: EventLoop.Timer
                var watch: EventLoop.Timer
            }

            /// The time without a taken job after which one more thread starts, in nanoseconds.
            private static let patience: Int64 = 20_000_000
            /// The time between two attempts to start threads without which tasks would never continue, in microseconds.
            private static let retryInterval: UInt32 = 100_000
            /// The number of attempts after which a process continues with its present threads.
            private static let mostRefusals = 30
            /// The greatest number of threads.
            private static let mostThreads = 64

            /// Starts a thread.
            typealias Starter =
                @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) throws(TunnelIOError) -> Void

            /// Starts the thread of the timers.
            typealias TimerStarter = @Sendable (_ loop: EventLoop) throws(TunnelIOError) -> Void

            private let name: String
            private let start: Starter
            private let startTimers: TimerStarter
            /// The number of threads that stay.
            private let standardCount: Int
            private let jobs = Monitor(Jobs())
            /// The latest deadline first. Of equal deadlines, the job that arrived last comes first.
            private let sleeping = Mutex<[SleepingJob]>([])
            /// The first sleeping job makes the timers, because a process first closes the descriptors that it inherited.
            private let startedTimers = Mutex<Timers?>(nil)

            /// Threads with this name, which start when they are needed. They and this object stay until the process ends.
            /// - Parameters:
            ///   - start: Starts a thread; another than the standard one in tests.
            ///   - startTimers: Starts the thread of the timers; another than the standard one in tests.
            init(
                name: String = "culvert-task",
                start: @escaping Starter = { (name, body) throws(TunnelIOError) in
                    _ = try LoopThread(name: name, body: body)
                },
                startTimers: @escaping TimerStarter = { (loop) throws(TunnelIOError) in
                    try loop.startThread(name: "culvert-timer")
                }
            ) {
                self.name = name
                self.start = start
                self.startTimers = startTimers
                standardCount = min(max(ProcessorCount.forLanes(), 2), 4)
            }

            // MARK: - Jobs

            func enqueue(_ job: consuming ExecutorJob) { add(UnownedJob(job)) }

            private func add(_ job: UnownedJob) {
                var needsThread = false
                jobs.updateForOne { jobs in
                    jobs.append(job)
                    needsThread = jobs.lacksThreads && !jobs.isWatched
                    return jobs.idleCount > 0
                }
                if needsThread { provideThread() }
            }

            /// Starts a thread if there is room for it. If not, or if the system refuses it, has the loop watch the threads,
            /// because they may be blocked. If the system refuses that too, tries again for some seconds as long as a job needs a
            /// thread. Then the next job tries again: the caller may be the only thread, without which no job ever runs.
            private func provideThread() {
                while true {
                    var (isNeeded, hasRoom, hasOthers) = (false, false, false)
                    jobs.withValue { jobs in
                        isNeeded = jobs.lacksThreads && !jobs.isWatched
                        hasRoom = isNeeded && jobs.threadCount < standardCount
                        hasOthers = jobs.threadCount > 0
                        if hasRoom { jobs.threadCount += 1 }
                    }
                    guard isNeeded else { return }
                    if hasRoom, startCountedThread() { return }
                    // Before its first thread, a process may still close the descriptors that it inherited.
                    if hasOthers, beginWatch() { return }
                    let isLasting = jobs.withValue { jobs in
                        jobs.refusals += 1
                        return jobs.refusals > Self.mostRefusals
                    }
                    if hasOthers, isLasting { return }
                    usleep(Self.retryInterval)
                }
            }

            /// Starts a thread that ``Jobs/threadCount`` already includes.
            /// - Returns: `false` if the system refuses it.
            private func startCountedThread() -> Bool {
                do throws(TunnelIOError) {
                    try startThread()
                    jobs.withValue { $0.refusals = 0 }
                    return true
                } catch {
                    jobs.withValue { $0.threadCount -= 1 }
                    return false
                }
            }

            private func startThread() throws(TunnelIOError) {
                try Self.withSignalsBlocked { () throws(TunnelIOError) in
                    try start(name) { self.runJobs() }
                }
            }

            private func runJobs() {
                while let job = nextJob() { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
            }

            /// Waits for a job.
            /// - Returns: `nil` if the calling thread must end.
            private func nextJob() -> UnownedJob? {
                var isIdle = false
                return jobs.wait { jobs -> UnownedJob?? in
                    if isIdle { jobs.idleCount -= 1 }
                    if let job = jobs.takeFirst() { return .some(job) }
                    if jobs.threadCount > standardCount {
                        jobs.threadCount -= 1
                        return .some(nil)
                    }
                    jobs.idleCount += 1
                    isIdle = true
                    return nil
                }
            }

            // MARK: - Blocked threads

            /// Has the loop compare the number of taken jobs from now on.
            /// - Returns: `false` if the system refuses the timers.
            private func beginWatch() -> Bool {
                do throws(TunnelIOError) {
                    let timers = try makeTimers()
                    jobs.withValue { jobs in
                        _ = jobs.isStuck()
                        (jobs.isWatched, jobs.refusals) = (true, 0)
                    }
                    setWatch(timers)
                    return true
                } catch {
                    return false
                }
            }

            private func setWatch(_ timers: Timers) {
                timers.loop.set(timers.watch, deadline: LaneClock.now() + Self.patience)
            }

            /// Starts one more thread if none has taken a job since the last call, or if there is room for it because the
            /// system has refused one.
            private func compareProgress() {
                var startsThread = false
                let isWatched = jobs.withValue { jobs in
                    jobs.isWatched = jobs.lacksThreads
                    guard jobs.isWatched else { return false }
                    startsThread = jobs.threadCount < (jobs.isStuck() ? Self.mostThreads : standardCount)
                    if startsThread { jobs.threadCount += 1 }
                    return true
                }
                // If the system refuses the thread, the next call tries again.
                if startsThread { _ = startCountedThread() }
                if isWatched { setWatch(timers()) }
            }

            // MARK: - Sleeping jobs

            func enqueue<C: Clock>(
                _ job: consuming ExecutorJob, after delay: C.Duration, tolerance: C.Duration?, clock: C
            ) {
                // Clocks with another unit of time do not sleep by an executor.
                guard let delay = delay as? Duration else { return enqueue(job) }
                let sleeper = SleepingJob(job: UnownedJob(job), deadline: LaneClock.now() + delay.laneNanoseconds)
                let timers = timers()
                sleeping.withLock { sleeping in
                    let index = sleeping.firstIndex { $0.deadline <= sleeper.deadline } ?? sleeping.endIndex
                    sleeping.insert(sleeper, at: index)
                    // Set under the lock, so that no earlier deadline is overwritten.
                    if index == sleeping.endIndex - 1 { timers.loop.set(timers.sleep, deadline: sleeper.deadline) }
                }
            }

            func enqueue<C: Clock>(
                _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
            ) {
                enqueue(job, after: clock.now.duration(to: instant), tolerance: tolerance, clock: clock)
            }

            private func wakeJobs() {
                let timers = timers()
                let due = sleeping.withLock { sleeping -> [SleepingJob] in
                    let now = LaneClock.now()
                    let rest = sleeping.firstIndex { $0.deadline <= now } ?? sleeping.endIndex
                    let due = sleeping[rest...]
                    sleeping.removeSubrange(rest...)
                    if let next = sleeping.last { timers.loop.set(timers.sleep, deadline: next.deadline) }
                    return due.reversed()
                }
                for sleeper in due { add(sleeper.job) }
            }

            // MARK: - The system

            /// Returns the timers. Tries again if the system refuses their thread or descriptors, because a sleeping job would
            /// never continue without them.
            private func timers() -> Timers {
                while true {
                    do throws(TunnelIOError) { return try makeTimers() } catch { usleep(Self.retryInterval) }
                }
            }

            /// Returns the timers. The first call starts their thread.
            private func makeTimers() throws(TunnelIOError) -> Timers {
                try startedTimers.withLock { (present) throws(TunnelIOError) in
                    if let present { return present }
                    let loop = try EventLoop()
                    let timers = Timers(
                        loop: loop, sleep: loop.makeTimer { self.wakeJobs() },
                        watch: loop.makeTimer { self.compareProgress() })
                    try Self.withSignalsBlocked { () throws(TunnelIOError) in
                        try startTimers(loop)
                    }
                    present = timers
                    return timers
                }
            }

            /// Starts a thread that receives no signals but those of faults, because a program waits for signals in its first
            /// thread.
            private static func withSignalsBlocked<R>(
                _ start: () throws(TunnelIOError) -> R
            ) throws(TunnelIOError) -> R {
                var (blocked, before) = (sigset_t(), sigset_t())
                unsafe sigfillset(&blocked)
                for number in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS] {
                    unsafe sigdelset(&blocked, number)
                }
                unsafe pthread_sigmask(SIG_SETMASK, &blocked, &before)
                defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
                return try start()
            }
        }
    #endif
#endif
