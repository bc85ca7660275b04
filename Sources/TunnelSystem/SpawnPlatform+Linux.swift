// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The parts of starting programs that are specific to Linux.
    package enum SpawnPlatform {
        static var noActions: posix_spawn_file_actions_t { unsafe posix_spawn_file_actions_t() }
        /// A value here; a pointer on macOS.
        @unsafe static var noAttributes: posix_spawnattr_t { posix_spawnattr_t() }
        /// POSIX_SPAWN_SETSID, which glibc hides from imports.
        static let newSession: Int32 = 0x80
        /// See ``closeOthers(than:_:)``.
        static let closesTheRest: Int32 = 0

        /// Closes all other descriptors in the program (posix_spawn_file_actions_addclosefrom_np(3)).
        @unsafe static func closeOthers(than numbers: Set<Int32>, _ actions: inout posix_spawn_file_actions_t) {
            let end = (numbers.max() ?? 0) + 1
            for number in 0..<end where !numbers.contains(number) {
                unsafe posix_spawn_file_actions_addclose(&actions, number)
            }
            unsafe _ = ctunnel_spawn_close_from(&actions, end)
        }

        /// Does nothing: ``closeOthers(than:_:)`` does not close the descriptor.
        static func keep(_ number: Int32, _ actions: inout posix_spawn_file_actions_t) {}

        /// Makes a pipe whose ends no program inherits, not even one that another thread starts at the same time.
        @unsafe static func pipe(_ ends: UnsafeMutablePointer<Int32>?) -> Int32 { unsafe ctunnel_pipe(ends) }

        /// This program's own file, even if it was started by a name in the path.
        package static let ownProgram = "/proc/self/exe"
    }
#endif
