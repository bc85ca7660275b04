// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// Runs a server as the owner of its folder.
    package enum FolderOwner {
        /// The capabilities of a server: CAP_NET_ADMIN for interfaces, addresses and the firewall, and
        /// CAP_NET_BIND_SERVICE for ports below 1024.
        package static let capabilities: UInt64 = 1 << 12 | 1 << 10

        /// Changes the user of this process to the owner of a folder, if this user is root and the owner is not. The
        /// process keeps only these capabilities. Core dumps and debuggers are disabled, because they would expose
        /// keys.
        /// - Parameter capabilities: The capabilities to keep; 0 leaves root its capabilities if root owns the folder.
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
                    "cannot become user \(status.owner), the owner of \(path): \(SystemError.words(error))",
                    status: ExitStatus.notPermitted)
            }
            _ = ctunnel_forbid_new_privileges()
            // Changing the user enables core dumps and debuggers again.
            _ = ctunnel_forbid_dumps()
        }

        /// Lets a command of root work in a server's folder as its owner, while it also needs root's rights for other files.
        package struct Rights: Sendable {
            /// The owner; `nil` if this process already has its rights, or lacks those of root.
            private let owner: (user: uid_t, group: gid_t)?

            package init(of path: String) {
                guard geteuid() == 0, let user = FileStatus(of: path, followsLinks: false)?.owner, user != 0 else {
                    owner = nil
                    return
                }
                owner = (user, unsafe getpwuid(user)?.pointee.pw_gid ?? getgid())
            }

            /// Changes the effective user to the owner until ``restore()``.
            package func assume() throws(CommandFailure) {
                guard let owner, setegid(owner.group) != 0 || seteuid(owner.user) != 0 else { return }
                let error = errno
                restore()
                throw CommandFailure(
                    "cannot become user \(owner.user): \(SystemError.words(error))", status: ExitStatus.notPermitted)
            }

            /// Changes the effective user back.
            package func restore() {
                guard owner != nil else { return }
                _ = seteuid(getuid())
                _ = setegid(getgid())
            }
        }

        /// Makes the parent of a server's folder, which all users may traverse.
        /// - Throws: ``CommandFailure`` if `owner` does not exist, or if the parent exists and only its own owner, another
        ///   user, can traverse it.
        package static func makeParent(of path: String, owner: String?) throws(CommandFailure) {
            let user = if let owner { try entry(owner).0 } else { geteuid() }
            guard let parent = path.lastIndex(of: "/").map({ String(path[..<$0]) }), !parent.isEmpty else { return }
            _ = try? PrivateDirectory<CommandFailure>(path: parent, access: .readableByAll)
            guard let owner, let status = FileStatus(of: parent), status.owner != user, status.mode & 0o011 == 0 else {
                return
            }
            throw CommandFailure(
                "the user '\(owner)' cannot enter \(parent), whose mode is \(String(status.mode, radix: 8))",
                status: ExitStatus.notPermitted, fix: "chmod 711 \(parent), which reveals no names of files in it")
        }

        private static func entry(_ owner: String) throws(CommandFailure) -> (uid_t, gid_t) {
            guard let entry = unsafe getpwnam(owner) else {
                throw CommandFailure(
                    "the user '\(owner)' does not exist", status: ExitStatus.usage,
                    fix: "useradd --system --home-dir / --shell /usr/sbin/nologin \(owner)")
            }
            return unsafe (entry.pointee.pw_uid, entry.pointee.pw_gid)
        }

        /// Changes the owner of a folder of this process, and of the files in it.
        package static func changeOwner(of path: String, to owner: String) throws(CommandFailure) {
            let (user, group) = try entry(owner)
            let folder = OwnedDescriptor(SystemCall.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
            guard folder.number >= 0, let names = FolderContents.names(".", in: folder.number) else {
                throw CommandFailure("cannot open \(path): \(SystemError.words(errno))")
            }
            for name in names
            where unsafe fchownat(folder.number, name, user, group, AT_SYMLINK_NOFOLLOW) != 0 {
                throw denied("\(path)/\(name)", owner)
            }
            // Change the folder last, so that its new owner has no access before.
            guard fchown(folder.number, user, group) == 0 else { throw denied(path, owner) }
        }

        private static func denied(_ path: String, _ owner: String) -> CommandFailure {
            CommandFailure(
                "cannot give \(path) to '\(owner)': \(SystemError.words(errno))", status: ExitStatus.notPermitted,
                fix: "run as root")
        }

        /// Creates the journal folder for the server's user. If the folder exists, its owner is changed only if root
        /// owns it and no other user can access it, because another user's folder may contain a journal whose changes
        /// would be undone.
        /// - Throws: ``CommandFailure`` if another user owns the folder or can access it.
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
                    "the journal's folder \(path) belongs to user \(status.owner), or other users can access it",
                    status: ExitStatus.notPermitted,
                    fix: "select a folder with --journal that does not exist yet, such as /run/culvert-NAME")
            }
            guard fchown(folder.number, owner, gid_t.max) == 0 else {
                throw CommandFailure("cannot give \(path) to user \(owner): \(SystemError.words(errno))")
            }
        }
    }
#endif
