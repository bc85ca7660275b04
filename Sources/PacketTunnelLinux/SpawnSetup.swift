// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// What a program starts with (`posix_spawn`): its descriptors, a group or session of its own, so that Ctrl-C is not for
/// it, and signals as they are by default.
@safe
package final class SpawnSetup {
    /// What it is apart from us in.
    package enum Place {
        case ownGroup
        /// It does not end when the terminal goes, either.
        case ownSession
    }

    private var actions = unsafe posix_spawn_file_actions_t()
    private var attributes = posix_spawnattr_t()

    package init(_ place: Place) {
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawnattr_init(&attributes)
        var none = sigset_t()
        var all = sigset_t()
        unsafe sigemptyset(&none)
        unsafe sigfillset(&all)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setsigdefault(&attributes, &all)
        unsafe posix_spawnattr_setpgroup(&attributes, 0)
        // POSIX_SPAWN_SETSID, which glibc hides from imports.
        let apart = place == .ownGroup ? Int32(POSIX_SPAWN_SETPGROUP) : 0x80
        let flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK) | apart
        unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
    }

    deinit {
        unsafe posix_spawn_file_actions_destroy(&actions)
        unsafe posix_spawnattr_destroy(&attributes)
    }

    /// Opens /dev/null as this number.
    package func openNull(_ number: Int32, forWriting: Bool) {
        unsafe posix_spawn_file_actions_addopen(
            &actions, number, "/dev/null", forWriting ? O_WRONLY : O_RDONLY, 0)
    }

    /// Gives it a descriptor of ours under this number.
    package func give(_ descriptor: Int32, as number: Int32) {
        unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, number)
    }

    /// Starts it.
    /// - Parameters:
    ///   - program: its file; where `isSearched`, a name without a slash is looked for in `PATH`.
    ///   - arguments: its name first.
    ///   - environment: all of it.
    /// - Returns: the process, unless `error` is a number of errno.h.
    package func start(
        _ program: String, isSearched: Bool = false, arguments: [String], environment: [String]
    ) -> (child: Int32, error: Int32) {
        var child: Int32 = 0
        let argumentPointers = unsafe arguments.map { unsafe strdup($0) } + [nil]
        let environmentPointers = unsafe environment.map { unsafe strdup($0) } + [nil]
        defer {
            unsafe argumentPointers.forEach { unsafe free($0) }
            unsafe environmentPointers.forEach { unsafe free($0) }
        }
        let error =
            if isSearched {
                unsafe posix_spawnp(&child, program, &actions, &attributes, argumentPointers, environmentPointers)
            } else {
                unsafe posix_spawn(&child, program, &actions, &attributes, argumentPointers, environmentPointers)
            }
        return (child, error)
    }
}
