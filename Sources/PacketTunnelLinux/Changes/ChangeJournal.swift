// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import PacketTunnel
import Synchronization
import TunnelIO
import TunnelSystem

/// The folder of the journals, `/run/culvert`, with one file per tunnel, which only its owner can read. A reboot clears
/// /run and the changes that the journals list.
package struct JournalDirectory: Hashable, Sendable {
    /// The folder.
    package let path: String
    /// The time limit for the folder's lock. A process that was stopped may hold it forever; a running process holds it
    /// until programs such as nft have ended.
    package var lockLimit: Duration

    package init(path: String = "/run/culvert", lockLimit: Duration = .seconds(30)) {
        self.path = path
        self.lockLimit = lockLimit
    }

    /// The maximum size of a journal in bytes: enough for the routes of a hundred thousand networks.
    private static let byteLimit = 64 << 20

    func file(_ name: String) -> String { "\(path)/\(name).journal" }

    /// - Throws: `.invalidTunnelName` if the text cannot name an interface and a file.
    static func validate(_ name: String) throws(LinuxNetworkError) {
        guard FileName.isInterface(name) else { throw LinuxNetworkError(.invalidTunnelName(name)) }
    }

    /// Creates the folder if it is missing, and checks that no other user can write to it.
    package func prepare() throws(LinuxNetworkError) {
        if unsafe mkdir(path, 0o700) != 0, errno != EEXIST {
            throw LinuxNetworkError(.journal(path: path, operation: "make its folder"), errno: errno)
        }
        guard let status = FileStatus(of: path, followsLinks: false) else {
            throw LinuxNetworkError(.journal(path: path, operation: "examine its folder"), errno: errno)
        }
        guard status.kind == .folder, status.owner == geteuid(), status.mode & 0o022 == 0 else {
            throw LinuxNetworkError(
                .journal(path: path, operation: Self.distrust), errno: EPERM)
        }
    }

    /// The operation in the error that other users can write to the folder.
    static let distrust = "trust its folder, which other users can write to"

    /// Sets the folder's mode to 0711, so that other users can open files in it that they may open, such as a control
    /// socket. They cannot list the folder, or open it to take its lock.
    package func allowTraversal() throws(LinuxNetworkError) {
        try prepare()
        guard unsafe chmod(path, 0o711) == 0 else {
            throw LinuxNetworkError(.journal(path: path, operation: "let users through its folder"), errno: errno)
        }
    }

    /// Runs `body` with the lock, so that no other process changes the network through a journal of this folder.
    /// - Parameter meanwhile: Called about every 20 milliseconds while another process has the lock.
    package func locked<Result>(
        meanwhile: (() -> Void)? = nil, _ body: () throws(LinuxNetworkError) -> Result
    ) throws(LinuxNetworkError) -> Result {
        let lock = try self.lock(meanwhile, limit: presentLimit)
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }

    /// The errors of a system without free space, free descriptors or a writable file system.
    private static let exhausted = [ENOSPC, EDQUOT, EROFS, EIO, EMFILE, ENFILE, ENOMEM]

    /// Runs `body`, which undoes changes, like ``locked(_:)``. If a full or read-only file system prevents locking, it
    /// runs without the lock, because undoing must not depend on a write.
    /// - Parameter needsTrust: `false` for the changes that this process itself has made. These are undone without the
    ///   lock even if other users can write to the folder. They are undone last, so they wait for the full limit even
    ///   after earlier waits failed.
    func lockedIfPossible<Result>(
        needsTrust: Bool = true, _ body: () throws(LinuxNetworkError) -> Result
    ) throws(LinuxNetworkError) -> Result {
        let lock: SharedDescriptor?
        do throws(LinuxNetworkError) {
            lock = try self.lock(limit: needsTrust ? presentLimit : lockLimit)
        } catch {
            guard Self.exhausted.contains(error.errno) || !needsTrust && error.isOfDistrust else { throw error }
            lock = nil
        }
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }

    /// Takes the lock of the folder. Releasing the result releases the lock.
    private func lock(_ meanwhile: (() -> Void)? = nil, limit: Duration) throws(LinuxNetworkError) -> SharedDescriptor {
        try prepare()
        while true {
            let number = SystemCall.open(path, O_RDONLY | O_DIRECTORY)
            guard number >= 0 else {
                throw LinuxNetworkError(.journal(path: path, operation: "open its folder"), errno: errno)
            }
            let descriptor = OwnedDescriptor(number)
            let began = ContinuousClock.now
            let reason = acquire(descriptor.number, meanwhile, within: limit)
            guard reason == 0 else {
                let waited = reason == EWOULDBLOCK ? noteRefusal(since: began) : .zero
                let holder = LockHolder.find(path).map { ", which \($0) has kept locked for \(waited)" } ?? ""
                throw LinuxNetworkError(.journal(path: path, operation: "lock its folder" + holder), errno: reason)
            }
            Self.refusals.withLock { $0[path] = nil }
            // Another process may have removed and recreated the folder meanwhile, so the lock would be that of the old
            // folder.
            if FileStatus(of: descriptor.number)?.identity == FileIdentity(of: path) {
                return SharedDescriptor(descriptor)
            }
            try prepare()
        }
    }

    /// For each folder, the start of the first and the end of the last of consecutive waits that failed.
    private static let refusals = Mutex<[String: (since: ContinuousClock.Instant, last: ContinuousClock.Instant)]>([:])
    /// The time after a failed wait in which further waits are short, because undoing takes the lock several times.
    private static let memory = Duration.seconds(60)
    private static let shortLimit = Duration.seconds(1)

    /// The time limit that applies to a wait now.
    private var presentLimit: Duration {
        let last = Self.refusals.withLock { refusals in
            if let last = refusals[path]?.last, ContinuousClock.now - last >= Self.memory { refusals[path] = nil }
            return refusals[path]?.last
        }
        return last == nil ? lockLimit : min(lockLimit, Self.shortLimit)
    }

    /// Records a wait that ended without the lock.
    /// - Returns: The total time of all consecutive failed waits.
    private func noteRefusal(since began: ContinuousClock.Instant) -> Duration {
        let now = ContinuousClock.now
        return Self.refusals.withLock { refusals in
            let since = refusals[path]?.since
            guard since != nil || lockLimit >= Self.shortLimit else { return lockLimit }
            refusals[path] = (since ?? began, now)
            return .seconds((now - (since ?? began)).components.seconds)
        }
    }

    private func acquire(_ descriptor: Int32, _ meanwhile: (() -> Void)?, within limit: Duration) -> Int32 {
        guard let meanwhile else { return FileLock.acquire(descriptor, within: limit) }
        let began = ContinuousClock.now
        while true {
            let reason = FileLock.acquire(descriptor, within: min(limit, .milliseconds(20)))
            guard reason == EWOULDBLOCK, ContinuousClock.now - began < limit else { return reason }
            meanwhile()
        }
    }

    /// The names of the tunnels that have a journal, sorted.
    package func names() -> [String] {
        let files = FolderContents.names(path) ?? []
        return files.filter { $0.hasSuffix(".journal") }.map { String($0.dropLast(8)) }.sorted()
    }

    /// Reads the journal of a tunnel. Returns `nil` if it does not exist.
    package func read(_ name: String) throws(LinuxNetworkError) -> JournalLine.Contents? {
        try Self.validate(name)
        let file = file(name)
        guard let bytes = try ownBytes(file) else { return nil }
        return JournalLine.read(bytes)
    }

    /// Returns the bytes of a file in this folder, or `nil` if it does not exist. The file must belong to this user or
    /// to root, because the changes in it are undone with this process's rights.
    private func ownBytes(_ file: String) throws(LinuxNetworkError) -> [UInt8]? {
        let number = SystemCall.open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        guard number >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw LinuxNetworkError(.journal(path: file, operation: "open it"), errno: errno)
        }
        let descriptor = OwnedDescriptor(number)
        guard let status = FileStatus(of: number), status.kind == .file,
            status.owner == geteuid() || status.owner == 0
        else {
            throw LinuxNetworkError(
                .journal(path: file, operation: "trust it: it belongs to another user"), errno: EPERM)
        }
        guard let bytes = SystemCall.readAll(descriptor.number, limit: Self.byteLimit) else {
            throw LinuxNetworkError(.journal(path: file, operation: "read it"), errno: errno)
        }
        return bytes
    }

    /// The changes in other tunnels' journals that are not undone yet.
    package func pendingChanges(except name: String) -> [ChangeEntry] {
        names().filter { $0 != name }.flatMap { other in
            ((try? read(other)) ?? nil)?.pending ?? []
        }
    }

    // MARK: - Held policies

    private static let markEnding = ".guard"

    private func mark(_ name: String) -> String { "\(path)/\(name)\(Self.markEnding)" }

    /// The policy that is held for a tunnel even while the tunnel does not run, or `nil` if there is none.
    package func heldPolicy(_ name: String) throws(LinuxNetworkError) -> HeldPolicy? {
        guard let text = try SmallFile.text(mark(name)) else { return nil }
        // A damaged file must not weaken the policy.
        return HeldPolicy(text: text) ?? HeldPolicy(policy: .everything, isUntilReleased: true)
    }

    /// Stores the policy to hold for a tunnel. The caller must hold the lock.
    package func hold(_ held: HeldPolicy, _ name: String) throws(LinuxNetworkError) {
        try Self.validate(name)
        try prepare()
        _ = try replace(mark(name), with: Array(held.text.utf8)) { fsync($0) == 0 }
    }

    /// Returns the tunnel of a policy file in this folder; `nil` for other files.
    static func tunnel(ofMark file: String) -> String? {
        file.hasSuffix(markEnding) ? String(file.dropLast(markEnding.count)) : nil
    }

    /// Replaces a file of this folder atomically.
    /// - Parameter sync: Syncs the new file to the disk, if that is necessary.
    /// - Returns: The descriptor of the new file, at its end.
    fileprivate func replace(
        _ file: String, with bytes: [UInt8], sync: (Int32) -> Bool
    ) throws(LinuxNetworkError) -> OwnedDescriptor {
        let new = file + ".new"
        unsafe _ = unlink(new)
        let number = SystemCall.open(new, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard number >= 0 else {
            throw LinuxNetworkError(.journal(path: new, operation: "make it"), errno: errno)
        }
        let descriptor = OwnedDescriptor(number)
        guard SystemCall.writeAll(number, bytes), sync(number), unsafe rename(new, file) == 0 else {
            let error = errno
            unsafe _ = unlink(new)
            throw LinuxNetworkError(.journal(path: file, operation: "write it"), errno: error)
        }
        return descriptor
    }

    /// Removes the policy that is held while a tunnel does not run.
    package func release(_ name: String) {
        unsafe _ = unlink(mark(name))
    }

    /// Removes a policy that must not outlast the tunnel.
    func releaseWithTunnel(_ name: String) throws(LinuxNetworkError) {
        if try heldPolicy(name)?.isUntilReleased == false { release(name) }
    }

    /// Deletes a tunnel's journal.
    package func remove(_ name: String) {
        unsafe _ = unlink(file(name))
    }
}

/// A policy that is in effect even while its tunnel does not run.
package struct HeldPolicy: Hashable, Sendable {
    package var policy: LeakPolicy
    /// Whether it stays when the user takes the tunnel down.
    package var isUntilReleased: Bool

    package init(policy: LeakPolicy, isUntilReleased: Bool) {
        self.policy = policy
        self.isUntilReleased = isUntilReleased
    }

    init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count == 2, let policy = LeakPolicy(rawValue: String(words[0])) else { return nil }
        self.init(policy: policy, isUntilReleased: words[1] != "until-down")
    }

    var text: String { "\(policy.rawValue) \(isUntilReleased ? "until-release" : "until-down")\n" }
}

/// The journal of a running tunnel. Each change is written to it before it is made.
///
/// If the process is killed, the kernel keeps the bytes that it has written, so its changes can be undone. Bytes that are not
/// synced to the disk are lost only when the kernel itself ends, for example at a loss of power. That also ends all changes of
/// the kernel's network. So only the entries for changes of files are synced (``Change/outlivesKernel``): before the change is
/// made, and after it was undone, so that no older file replaces a newer one after the next boot.
package final class ChangeJournal {
    /// The folder of the journal.
    package let directory: JournalDirectory
    /// The name of the tunnel.
    package let name: String
    private var descriptor: OwnedDescriptor
    private var owner: JournalOwner
    private var lastID = 0
    /// The length of the journal after it was last rewritten, and its length now, in bytes.
    private var lengths: (compacted: Int, now: Int) = (0, 0)
    /// Whether its last line may be incomplete.
    private var isTorn = false
    /// The `errno` of opening it for writing; 0 if it is writable.
    var refusal: Int32 = 0
    /// Syncs the file of a descriptor to the disk. Returns `false` and sets `errno` if that fails. Tests replace it.
    var sync: (Int32) -> Bool = { fsync($0) == 0 }
    /// Whether it still lists undone changes, because writing that they are undone failed.
    private var isBehind = false

    /// The present version of the format.
    static let version = 2

    /// Creates a journal.
    /// - Throws: `EEXIST` if the tunnel already has one.
    package init(
        name: String, directory: JournalDirectory, owner: JournalOwner = .current
    ) throws(LinuxNetworkError) {
        try JournalDirectory.validate(name)
        try directory.prepare()
        let file = directory.file(name)
        let number = SystemCall.open(file, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard number >= 0 else {
            throw LinuxNetworkError(.journal(path: file, operation: "make it"), errno: errno)
        }
        descriptor = OwnedDescriptor(number)
        self.directory = directory
        self.name = name
        self.owner = owner
        try write(line(.owner(owner, version: Self.version)), isSynced: false)
    }

    /// Rewrites the journal with its owner and the changes that are not undone.
    func record(
        _ owner: JournalOwner, _ pending: [ChangeEntry]
    ) throws(LinuxNetworkError) {
        self.owner = owner
        try compact(pending)
    }

    /// The number of bytes by which a journal grows before it is rewritten.
    static let growth = 262_144

    /// Rewrites the journal if it has grown long, because repairs of changes that another process keeps undoing add
    /// entries without limit. If rewriting fails, the journal stays unchanged.
    func compactIfLong(_ pending: [ChangeEntry]) {
        if isBehind || lengths.now > lengths.compacted + Self.growth { try? compact(pending) }
    }

    private func compact(_ pending: [ChangeEntry]) throws(LinuxNetworkError) {
        var bytes = try line(.owner(owner, version: Self.version))
        for entry in pending { bytes += try line(.entry(entry)) }
        let isSynced = pending.contains(where: \.change.outlivesKernel)
        descriptor = try directory.replace(directory.file(name), with: bytes) { !isSynced || sync($0) }
        lengths = (bytes.count, bytes.count)
        (isTorn, isBehind, refusal) = (false, false, 0)
    }

    /// Opens the journal of a process that has ended, in order to continue it.
    /// - Returns: `nil` if the tunnel has no journal.
    static func resume(
        _ name: String, directory: JournalDirectory
    ) throws(LinuxNetworkError) -> (journal: ChangeJournal, contents: JournalLine.Contents)? {
        guard let contents = try directory.read(name) else { return nil }
        let file = directory.file(name)
        var number = SystemCall.open(file, O_WRONLY | O_APPEND | O_NOFOLLOW)
        let refusal = number >= 0 ? 0 : errno
        // The changes can be undone even if the file system is read-only.
        if number < 0 { number = SystemCall.open(file, O_RDONLY | O_NOFOLLOW) }
        guard number >= 0 else {
            throw LinuxNetworkError(.journal(path: file, operation: "open it"), errno: errno)
        }
        let journal = ChangeJournal(
            OwnedDescriptor(number), name: name, directory: directory, owner: contents.owner ?? .nobody,
            lastID: contents.pending.map(\.id).max() ?? 0)
        // The last line may lack its line feed, so the next line begins with one.
        (journal.isTorn, journal.refusal) = (true, refusal)
        return (journal, contents)
    }

    private init(
        _ descriptor: consuming OwnedDescriptor, name: String, directory: JournalDirectory, owner: JournalOwner,
        lastID: Int
    ) {
        self.descriptor = descriptor
        self.owner = owner
        self.name = name
        self.directory = directory
        self.lastID = lastID
    }

    /// Writes all changes to the journal, in one write, before they are made.
    /// - Returns: Their entries.
    func record(_ changes: [(Change, PreviousState)]) throws(LinuxNetworkError) -> [ChangeEntry] {
        let entries = changes.enumerated().map { ChangeEntry(id: lastID + 1 + $0, $1.0, $1.1) }
        lastID += changes.count
        var bytes: [UInt8] = []
        for entry in entries { bytes += try line(.entry(entry)) }
        try write(bytes, isSynced: entries.contains(where: \.change.outlivesKernel))
        return entries
    }

    /// Returns an entry for a change that could not be written to the journal. The next rewrite adds it.
    func unrecorded(_ change: Change) -> ChangeEntry {
        lastID += 1
        isBehind = true
        return ChangeEntry(id: lastID, change, .nothing)
    }

    /// Records that a change was undone. If writing fails, the journal still lists the change. That is harmless,
    /// because undoing it again changes nothing.
    func recordUndone(_ entry: ChangeEntry) {
        do throws(LinuxNetworkError) {
            try write(line(.undone(id: entry.id)), isSynced: entry.change.outlivesKernel)
        } catch {
            isBehind = true
        }
    }

    /// Deletes the journal, after all changes were undone.
    func remove() {
        directory.remove(name)
    }

    private func line(_ record: JournalRecord) throws(LinuxNetworkError) -> [UInt8] {
        guard let line = JournalLine.encode(record) else {
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "encode an entry"))
        }
        return line
    }

    private func write(_ bytes: [UInt8], isSynced: Bool) throws(LinuxNetworkError) {
        guard refusal == 0 else {
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "write it"), errno: refusal)
        }
        lengths.now += bytes.count
        let number = descriptor.number
        // End an entry that was written only in part, so that it is a separate line.
        guard SystemCall.writeAll(number, isTorn ? [UInt8(ascii: "\n")] + bytes : bytes), !isSynced || sync(number)
        else {
            isTorn = true
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "write it"), errno: errno)
        }
        isTorn = false
    }
}
