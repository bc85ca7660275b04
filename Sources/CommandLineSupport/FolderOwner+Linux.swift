// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// A server runs as who its folder belongs to.
    package enum FolderOwner {
        /// What a server needs: interfaces, addresses and the firewall; ports below 1024.
        package static let capabilities: UInt64 = 1 << 12 | 1 << 10

        /// Becomes the owner of a folder, where this is root and that is not; keeps these capabilities alone. Core dumps and
        /// debuggers are shut out, since they would show keys.
        /// - Parameter capabilities: none leaves root what it has where the folder is its own.
        package static func become(_ path: String, keeping capabilities: UInt64) throws(CommandFailure) {
            _ = ctunnel_forbid_dumps()
            guard geteuid() == 0 else { return }
            guard let status = FileStatus(of: path, followsLinks: false), status.owner != 0 else {
                if capabilities != 0 {
                    _ = ctunnel_keep_capabilities(capabilities)
                    _ = ctunnel_forbid_new_privileges()
                }
                return
            }
            guard let entry = unsafe getpwuid(status.owner) else {
                throw CommandFailure(
                    "\(path) belongs to user \(status.owner), which does not exist", fix: "chown it")
            }
            let error = ctunnel_become_user(status.owner, unsafe entry.pointee.pw_gid, capabilities)
            guard error == 0 else {
                throw CommandFailure(
                    "cannot become user \(status.owner), whom \(path) belongs to: \(SystemError.words(error))",
                    status: ExitStatus.notPermitted)
            }
            _ = ctunnel_forbid_new_privileges()
            // What was forbidden is allowed again when a process becomes another user.
            _ = ctunnel_forbid_dumps()
        }

        /// Makes the way to a folder, which is everybody's.
        package static func makeParent(of path: String) throws(CommandFailure) {
            guard let parent = path.lastIndex(of: "/").map({ String(path[..<$0]) }), !parent.isEmpty else { return }
            _ = try? PrivateDirectory<CommandFailure>(path: parent, access: .readableByAll)
        }

        /// - Throws: where there is no such user.
        package static func check(_ owner: String) throws(CommandFailure) { _ = try entry(owner) }

        private static func entry(_ owner: String) throws(CommandFailure) -> (uid_t, gid_t) {
            guard let entry = unsafe getpwnam(owner) else {
                throw CommandFailure(
                    "there is no user '\(owner)'", status: ExitStatus.usage,
                    fix: "useradd --system --home-dir / --shell /usr/sbin/nologin \(owner)")
            }
            return unsafe (entry.pointee.pw_uid, entry.pointee.pw_gid)
        }

        /// Gives a folder that is this process's own, with the files in it, to a user.
        package static func give(_ path: String, to owner: String) throws(CommandFailure) {
            let (user, group) = try entry(owner)
            let folder = OwnedDescriptor(SystemCall.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
            guard folder.number >= 0, let names = FolderContents.names(".", in: folder.number) else {
                throw CommandFailure("cannot open \(path): \(SystemError.words(errno))")
            }
            for name in names
            where unsafe fchownat(folder.number, name, user, group, AT_SYMLINK_NOFOLLOW) != 0 {
                throw denied("\(path)/\(name)", owner)
            }
            // The last: until then nobody else is in it.
            guard fchown(folder.number, user, group) == 0 else { throw denied(path, owner) }
        }

        private static func denied(_ path: String, _ owner: String) -> CommandFailure {
            CommandFailure(
                "cannot give \(path) to '\(owner)': \(SystemError.words(errno))", status: ExitStatus.notPermitted,
                fix: "run as root")
        }

        /// Makes the folder of a journal for who the server will be. One that was there already becomes the server's only where root
        /// made it for itself alone: in another's folder may be a journal that would be undone.
        /// - Throws: where the folder is somebody else's.
        package static func makeJournal(_ path: String, for directory: String) throws(CommandFailure) {
            guard geteuid() == 0, let owner = FileStatus(of: directory)?.owner else { return }
            let isNew = unsafe mkdir(path, 0o700) == 0
            let number = SystemCall.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            guard number >= 0 else {
                throw CommandFailure("cannot open the journal's folder \(path): \(SystemError.words(errno))")
            }
            let folder = OwnedDescriptor(number)
            guard let status = FileStatus(of: folder.number), status.owner != owner else { return }
            guard status.owner == 0, isNew || status.mode & 0o077 == 0 else {
                throw CommandFailure(
                    "the journal's folder \(path) belongs to user \(status.owner), or is open to others",
                    status: ExitStatus.notPermitted,
                    fix: "name one with --journal that does not exist yet, such as /run/culvert-NAME")
            }
            guard fchown(folder.number, owner, gid_t.max) == 0 else {
                throw CommandFailure("cannot give \(path) to user \(owner): \(SystemError.words(errno))")
            }
        }
    }
#endif
