// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// What a child does with its descriptors before it runs. Not verified on Darwin.
    @safe
    struct SpawnActions {
        private var actions: posix_spawn_file_actions_t?
        private var attributes: posix_spawnattr_t?

        init() {
            unsafe posix_spawn_file_actions_init(&actions)
            unsafe posix_spawnattr_init(&attributes)
            unsafe posix_spawnattr_setflags(
                &attributes, Int16(POSIX_SPAWN_SETSID) | Int16(POSIX_SPAWN_CLOEXEC_DEFAULT))
        }

        mutating func move(_ descriptor: Int32, to number: Int32) {
            unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }

        /// Hands a descriptor on under its own number, which closing by default would prevent.
        mutating func keep(_ number: Int32) {
            unsafe posix_spawn_file_actions_addinherit_np(&actions, number)
        }

        mutating func openNull(_ number: Int32, forWriting: Bool) {
            unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", forWriting ? O_WRONLY : O_RDONLY, 0)
        }

        mutating func spawn(
            path: String, arguments: [String], environment: [String]
        ) -> (child: pid_t, error: Int32) {
            var child: pid_t = 0
            let argumentPointers = unsafe arguments.map { unsafe strdup($0) } + [nil]
            let environmentPointers = unsafe environment.map { unsafe strdup($0) } + [nil]
            defer {
                unsafe argumentPointers.forEach { unsafe free($0) }
                unsafe environmentPointers.forEach { unsafe free($0) }
            }
            let error = unsafe posix_spawn(
                &child, path, &actions, &attributes, argumentPointers, environmentPointers)
            return (child, error)
        }

        mutating func destroy() {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }
    }

    /// This program's own file.
    let executablePath: String = {
        var size = UInt32(0)
        unsafe _ = _NSGetExecutablePath(nil, &size)
        var bytes = [CChar](repeating: 0, count: Int(size) + 1)
        unsafe _ = _NSGetExecutablePath(&bytes, &size)
        return unsafe String(cString: bytes)
    }()
#endif
