// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Only Linux and macOS can start programs: tvOS and watchOS have no calls for it, and iOS does not permit it.
#if os(Linux) || os(macOS)
    import CTunnelSystem

    /// The setup of a program (`posix_spawn`): its descriptors, a separate group or session, so that Ctrl-C does not reach
    /// it, and default signals.
    ///
    /// The program inherits the descriptors 0, 1 and 2, and those that the setup names. SwiftNIO's sockets are not closed on
    /// exec: a program that inherited one would keep its connection open.
    @safe
    package final class SpawnSetup {
        /// The process group or session of the child.
        package enum Place {
            case ownGroup
            /// The child also survives the end of the terminal.
            case ownSession
        }

        private var actions = unsafe SpawnPlatform.noActions
        private var attributes = unsafe SpawnPlatform.noAttributes
        /// The descriptors that the program has.
        private var numbers: Set<Int32> = [0, 1, 2]

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
            let apart = place == .ownGroup ? Int32(POSIX_SPAWN_SETPGROUP) : SpawnPlatform.newSession
            let signals = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK)
            unsafe posix_spawnattr_setflags(&attributes, Int16(signals | apart | SpawnPlatform.closesTheRest))
        }

        deinit {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }

        /// Opens /dev/null as this number.
        package func openNull(_ number: Int32, forWriting: Bool) {
            numbers.insert(number)
            unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", forWriting ? O_WRONLY : O_RDONLY, 0)
        }

        /// Passes a descriptor of this process to the child with this number, which must differ.
        package func pass(_ descriptor: Int32, as number: Int32) {
            numbers.insert(number)
            unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }

        /// Passes a descriptor to the child under its own number.
        package func keep(_ number: Int32) {
            numbers.insert(number)
            unsafe SpawnPlatform.keep(number, &actions)
        }

        /// Starts a program.
        /// - Parameters:
        ///   - program: its file. If `isSearched` is true, a name without a slash is searched for in `PATH`.
        ///   - arguments: all arguments, with the program's name first.
        ///   - environment: the whole environment of the program.
        /// - Returns: the process ID.
        package func start(
            _ program: String, isSearched: Bool = false, arguments: [String], environment: [String]
        ) throws(SystemError) -> Int32 {
            var child: Int32 = 0
            unsafe SpawnPlatform.closeOthers(than: numbers, &actions)
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
            guard error == 0 else { throw SystemError("run '\(program)'", errno: error) }
            return child
        }
    }

    /// A pipe whose ends no other program inherits. Their numbers are at least 20, above those under which programs
    /// receive descriptors.
    package struct DescriptorPipe: Sendable {
        package let reader: SharedDescriptor
        package let writer: SharedDescriptor

        /// - Throws: if no descriptors are left.
        package init() throws(SystemError) {
            var ends: (Int32, Int32) = (-1, -1)
            let made = unsafe withUnsafeMutableBytes(of: &ends) { raw in
                unsafe SpawnPlatform.pipe(raw.bindMemory(to: Int32.self).baseAddress)
            }
            guard made == 0 else { throw SystemError("pipe", errno: errno) }
            let (lowReader, lowWriter) = ends
            defer { for low in [lowReader, lowWriter] { SystemCall.close(low) } }
            reader = try Self.raised(lowReader)
            writer = try Self.raised(lowWriter)
        }

        private static func raised(_ descriptor: Int32) throws(SystemError) -> SharedDescriptor {
            SharedDescriptor(OwnedDescriptor(try SystemCall.check("dup") { fcntl(descriptor, F_DUPFD_CLOEXEC, 20) }))
        }
    }
#endif
