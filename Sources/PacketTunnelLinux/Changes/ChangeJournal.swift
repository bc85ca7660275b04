// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import PacketTunnel
import Synchronization
import TunnelIO
import TunnelSystem

/// The folder of the journals, `/run/culvert`: one file for each tunnel, which only its owner can read. A reboot removes
/// /run, and with it every change that a journal lists.
package struct JournalDirectory: Hashable, Sendable {
    /// The folder.
    package let path: String
    /// The time to wait for the folder's lock. A process that was stopped may have it; a running one has it until programs such
    /// as nft have ended.
    package var lockLimit: Duration

    package init(path: String = "/run/culvert", lockLimit: Duration = .seconds(30)) {
        self.path = path
        self.lockLimit = lockLimit
    }

    /// The most bytes of a journal: enough for the routes of a hundred thousand networks.
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

    /// The operation that fails if other users can write to the folder.
    static let distrust = "trust its folder, which other users can write to"

    /// Sets the folder's mode to 0711, so that other users reach files that they may open, such as a control socket. They
    /// cannot list the folder or open it to take its lock.
    package func allowTraversal() throws(LinuxNetworkError) {
        try prepare()
        guard unsafe chmod(path, 0o711) == 0 else {
            throw LinuxNetworkError(.journal(path: path, operation: "let users through its folder"), errno: errno)
        }
    }

    /// Runs `body` while no other process changes the network by a journal of this folder.
    /// - Parameter meanwhile: Called about every 20 milliseconds while another process has the lock.
    package func locked<Result>(
        meanwhile: (() -> Void)? = nil, _ body: () throws(LinuxNetworkError) -> Result
    ) throws(LinuxNetworkError) -> Result {
        let lock = try self.lock(meanwhile, limit: presentLimit)
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }

    /// The errors of a system that has no space, no descriptors or no writable file system.
    private static let exhausted = [ENOSPC, EDQUOT, EROFS, EIO, EMFILE, ENFILE, ENOMEM]

    /// Runs `body`, which undoes changes, like ``locked(_:)``; without the lock if a full or read-only file system does not give it:
    /// undoing must not depend on a write.
    /// - Parameter needsTrust: `false` for changes that this process has made itself. It runs them without the lock also if other users
    ///   can write to the folder. They are the last, so they wait for the whole limit even after earlier waits.
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

    /// Takes the lock of the folder, which is released with the result.
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
            // Another process may have removed the folder of this lock meanwhile, and created it again.
            if FileStatus(of: descriptor.number)?.identity == FileIdentity(of: path) {
                return SharedDescriptor(descriptor)
            }
            try prepare()
        }
    }

    /// For each folder, the beginning of the first and the end of the last of the waits in a row that did not get the lock.
    private static let refusals = Mutex<[String: (since: ContinuousClock.Instant, last: ContinuousClock.Instant)]>([:])
    /// The time after a wait in vain in which the next waits for the lock are short: undoing takes the lock several times.
    private static let memory = Duration.seconds(60)
    private static let shortLimit = Duration.seconds(1)

    /// The time to wait for the lock now.
    private var presentLimit: Duration {
        let last = Self.refusals.withLock { refusals in
            if let last = refusals[path]?.last, ContinuousClock.now - last >= Self.memory { refusals[path] = nil }
            return refusals[path]?.last
        }
        return last == nil ? lockLimit : min(lockLimit, Self.shortLimit)
    }

    /// Records a wait that ended without the lock.
    /// - Returns: The time of all waits in a row.
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

    /// Returns the bytes of a file in this folder, or `nil` if it does not exist. The changes in a journal are undone with
    /// this process's rights, so the file must belong to this user or to root.
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

    /// The changes of other tunnels' journals that were not undone.
    package func pendingChanges(except name: String) -> [ChangeEntry] {
        names().filter { $0 != name }.flatMap { other in
            ((try? read(other)) ?? nil)?.pending ?? []
        }
    }

    // MARK: - Held policies

    private static let markEnding = ".guard"

    private func mark(_ name: String) -> String { "\(path)/\(name)\(Self.markEnding)" }

    /// The policy that is held for a tunnel whether or not it runs, or `nil` if there is none.
    package func heldPolicy(_ name: String) throws(LinuxNetworkError) -> HeldPolicy? {
        guard let text = try SmallFile.text(mark(name)) else { return nil }
        // A damaged file must not let packets out.
        return HeldPolicy(text: text) ?? HeldPolicy(policy: .everything, isUntilReleased: true)
    }

    /// Stores the policy that is held for a tunnel from now on. The caller must have the lock.
    package func hold(_ held: HeldPolicy, _ name: String) throws(LinuxNetworkError) {
        try Self.validate(name)
        try prepare()
        _ = try replace(mark(name), with: Array(held.text.utf8))
    }

    /// The tunnel that a file of this folder is the mark of; `nil` for other files.
    static func tunnel(ofMark file: String) -> String? {
        file.hasSuffix(markEnding) ? String(file.dropLast(markEnding.count)) : nil
    }

    /// Replaces a file of this folder atomically, and syncs it to the disk.
    /// - Returns: The descriptor of the new file, at its end.
    fileprivate func replace(_ file: String, with bytes: [UInt8]) throws(LinuxNetworkError) -> OwnedDescriptor {
        let new = file + ".new"
        unsafe _ = unlink(new)
        let number = SystemCall.open(new, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard number >= 0 else {
            throw LinuxNetworkError(.journal(path: new, operation: "make it"), errno: errno)
        }
        let descriptor = OwnedDescriptor(number)
        guard SystemCall.writeAll(number, bytes), fsync(number) == 0, unsafe rename(new, file) == 0 else {
            let error = errno
            unsafe _ = unlink(new)
            throw LinuxNetworkError(.journal(path: file, operation: "write it"), errno: error)
        }
        return descriptor
    }

    /// Says that no policy holds for a tunnel that does not run.
    package func release(_ name: String) {
        unsafe _ = unlink(mark(name))
    }

    /// Releases a policy that is not held longer than the tunnel runs.
    func releaseWithTunnel(_ name: String) throws(LinuxNetworkError) {
        if try heldPolicy(name)?.isUntilReleased == false { release(name) }
    }

    /// Deletes a tunnel's journal.
    package func remove(_ name: String) {
        unsafe _ = unlink(file(name))
    }
}

/// A policy that holds whether or not its tunnel runs.
package struct HeldPolicy: Hashable, Sendable {
    package var policy: LeakPolicy
    /// Whether it lasts also when the user takes the tunnel down.
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

/// The journal of a tunnel that runs: each change is in it, on the disk, before it is made.
package final class ChangeJournal {
    /// The folder that it is in.
    package let directory: JournalDirectory
    /// The tunnel.
    package let name: String
    private var descriptor: OwnedDescriptor
    private var owner: JournalOwner
    private var lastID = 0
    /// How long it was when it held nothing but what counts, and how long it is now.
    private var lengths: (compacted: Int, now: Int) = (0, 0)
    /// Whether its last line may lack its end.
    private var isTorn = false
    /// The error of opening it for writing; 0 if it is open for that.
    var refusal: Int32 = 0
    /// Whether it still lists changes that were undone, since that could not be written down.
    private var isBehind = false

    /// The present version of the format.
    static let version = 2

    /// A new journal.
    /// - Throws: `EEXIST` where the tunnel has one.
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
        try append(.owner(owner, version: Self.version))
    }

    /// Rewrites the journal with its present owner and the changes that are not undone.
    func record(
        _ owner: JournalOwner, _ pending: [ChangeEntry]
    ) throws(LinuxNetworkError) {
        self.owner = owner
        try compact(pending)
    }

    /// The number of bytes by which a journal grows before it is rewritten.
    static let growth = 262_144

    /// Rewrites the journal if it has grown long: repairs of changes that another process undoes add entries without limit.
    /// If rewriting fails, the journal stays as it is.
    func compactIfLong(_ pending: [ChangeEntry]) {
        if isBehind || lengths.now > lengths.compacted + Self.growth { try? compact(pending) }
    }

    private func compact(_ pending: [ChangeEntry]) throws(LinuxNetworkError) {
        var bytes = try line(.owner(owner, version: Self.version))
        for entry in pending { bytes += try line(.entry(entry)) }
        descriptor = try directory.replace(directory.file(name), with: bytes)
        lengths = (bytes.count, bytes.count)
        (isTorn, isBehind, refusal) = (false, false, 0)
    }

    /// Opens the journal of a process that has ended, to continue it.
    /// - Returns: `nil` if the tunnel has no journal.
    static func resume(
        _ name: String, directory: JournalDirectory
    ) throws(LinuxNetworkError) -> (journal: ChangeJournal, contents: JournalLine.Contents)? {
        guard let contents = try directory.read(name) else { return nil }
        let file = directory.file(name)
        var number = SystemCall.open(file, O_WRONLY | O_APPEND | O_NOFOLLOW)
        let refusal = number >= 0 ? 0 : errno
        // Its changes can be undone even if the file system is read-only.
        if number < 0 { number = SystemCall.open(file, O_RDONLY | O_NOFOLLOW) }
        guard number >= 0 else {
            throw LinuxNetworkError(.journal(path: file, operation: "open it"), errno: errno)
        }
        let journal = ChangeJournal(
            OwnedDescriptor(number), name: name, directory: directory, owner: contents.owner ?? .nobody,
            lastID: contents.pending.map(\.id).max() ?? 0)
        // The last line may lack its line feed, which the next line begins with then.
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

    /// Records all changes before they are made, with one write.
    /// - Returns: Their entries.
    func record(_ changes: [(Change, PreviousState)]) throws(LinuxNetworkError) -> [ChangeEntry] {
        let entries = changes.enumerated().map { ChangeEntry(id: lastID + 1 + $0, $1.0, $1.1) }
        lastID += changes.count
        var bytes: [UInt8] = []
        for entry in entries { bytes += try line(.entry(entry)) }
        try write(bytes)
        return entries
    }

    /// The entry of a change that could not be written down. The journal has it once it is compacted.
    func unrecorded(_ change: Change) -> ChangeEntry {
        lastID += 1
        isBehind = true
        return ChangeEntry(id: lastID, change, .nothing)
    }

    /// Writes down that a change was undone. If that fails the journal still lists the change, which does no harm: undoing it
    /// again changes nothing.
    func recordUndone(_ id: Int) {
        do throws(LinuxNetworkError) { try append(.undone(id: id)) } catch { isBehind = true }
    }

    /// Deletes it, when all was undone.
    func remove() {
        directory.remove(name)
    }

    private func append(_ record: JournalRecord) throws(LinuxNetworkError) {
        try write(line(record))
    }

    private func line(_ record: JournalRecord) throws(LinuxNetworkError) -> [UInt8] {
        guard let line = JournalLine.encode(record) else {
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "encode an entry"))
        }
        return line
    }

    private func write(_ bytes: [UInt8]) throws(LinuxNetworkError) {
        guard refusal == 0 else {
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "write it"), errno: refusal)
        }
        lengths.now += bytes.count
        let number = descriptor.number
        // An entry that was written in part must end as a separate line.
        guard SystemCall.writeAll(number, isTorn ? [UInt8(ascii: "\n")] + bytes : bytes), fsync(number) == 0 else {
            isTorn = true
            throw LinuxNetworkError(.journal(path: directory.file(name), operation: "write it"), errno: errno)
        }
        isTorn = false
    }
}
