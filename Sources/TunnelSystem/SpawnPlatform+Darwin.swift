// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(macOS)
    import Darwin
    import MachO

    /// The parts of starting programs that are specific to macOS. Not verified there.
    package enum SpawnPlatform {
        static var noActions: posix_spawn_file_actions_t? { nil }
        static var noAttributes: posix_spawnattr_t? { nil }
        static let newSession = Int32(POSIX_SPAWN_SETSID)
        static let closesTheRest = Int32(POSIX_SPAWN_CLOEXEC_DEFAULT)

        /// Does nothing: the flag ``closesTheRest`` closes the other descriptors.
        @unsafe static func closeOthers(than _: Set<Int32>, _: inout posix_spawn_file_actions_t?) {}

        /// Makes the program inherit a descriptor, which ``closesTheRest`` would close.
        static func keep(_ number: Int32, _ actions: inout posix_spawn_file_actions_t?) {
            unsafe posix_spawn_file_actions_addinherit_np(&actions, number)
        }

        /// Makes a pipe. Programs inherit only the descriptors that they are given; see ``closesTheRest``.
        @unsafe static func pipe(_ ends: UnsafeMutablePointer<Int32>?) -> Int32 { unsafe Darwin.pipe(ends) }

        /// This program's own file.
        package static let ownProgram: String = {
            var size = UInt32(0)
            unsafe _ = _NSGetExecutablePath(nil, &size)
            var bytes = [CChar](repeating: 0, count: Int(size) + 1)
            unsafe _ = _NSGetExecutablePath(&bytes, &size)
            return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }()
    }
#endif
