// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A process that holds the lock of a file (``FileLock``).
package struct LockHolder: Hashable, Sendable, CustomStringConvertible {
    /// The process.
    package let process: Int32
    /// Whether a signal or a debugger has stopped the process.
    package let isStopped: Bool

    /// The process and its state, for messages.
    package var description: String { "process \(process)" + (isStopped ? " (stopped)" : "") }

    /// Finds the other process that holds the lock of the file at `path`, even if the file has been deleted.
    ///
    /// The system reports the path of a descriptor as its process sees it. A file in a container can thus have the same
    /// path, so it must be on the same file system, unless its process is in this mount namespace.
    /// - Returns: `nil` if there is no such process, or if this user may not see its descriptors.
    package static func find(_ path: String) -> LockHolder? {
        let file = resolved(path)
        let targets: Set<String> = [file, file + " (deleted)"]
        // The folder may have been deleted too: the folder above it is on the same file system.
        var folders = [file]
        while let end = folders[folders.count - 1].lastIndex(of: "/") {
            folders.append(String(folders[folders.count - 1][..<end]))
        }
        let existing = folders.dropFirst().lazy.compactMap { FileStatus(of: $0.isEmpty ? "/" : $0) }.first
        let devices = [FileStatus(of: file), existing].compactMap { $0?.identity.device }
        let namespace = SystemCall.linkTarget("/proc/self/ns/mnt")
        return find { target, process, descriptor in
            guard targets.contains(target) else { return false }
            if let device = FileStatus(of: descriptor)?.identity.device, devices.contains(device) { return true }
            return namespace != nil && SystemCall.linkTarget("\(process)/ns/mnt") == namespace
        }?.holder
    }

    /// Finds the other process that holds the lock of a file of this name in any folder, and the path of that folder.
    /// The process and the folder must belong to root or this user, because another user could choose the folder to
    /// mislead this one.
    package static func find(fileName name: String) -> (holder: LockHolder, folder: String)? {
        func folder(_ path: String) -> String { String(path.dropLast(name.utf8.count + 1)) }
        return find(isTrusted: true) { target, _, _ in target.hasSuffix("/" + name) && isTrusted(folder(target)) }
            .map { holder, path in (holder, folder(path)) }
    }

    /// Whether a file, or the process of a folder in /proc, belongs to root or this user.
    private static func isTrusted(_ path: String) -> Bool {
        guard let owner = FileStatus(of: path, followsLinks: false)?.owner else { return false }
        return owner == 0 || owner == geteuid()
    }

    /// - Parameter isWanted: Whether a descriptor is the wanted one, by the path of its file, and by the paths in /proc of
    ///   its process and of the descriptor.
    private static func find(
        isTrusted needsTrust: Bool = false,
        _ isWanted: (_ target: String, _ process: String, _ descriptor: String) -> Bool
    ) -> (holder: LockHolder, path: String)? {
        for name in FolderContents.names("/proc") ?? [] {
            guard let process = Int32(name), process != getpid() else { continue }
            if needsTrust, !isTrusted("/proc/\(name)") { continue }
            for descriptor in FolderContents.names("/proc/\(name)/fd") ?? [] {
                let link = "/proc/\(name)/fd/\(descriptor)"
                guard let target = SystemCall.linkTarget(link), isWanted(target, "/proc/\(name)", link),
                    hasLock("/proc/\(name)/fdinfo/\(descriptor)")
                else { continue }
                let isStopped = ProcessRecord.read(process)?.isStopped ?? false
                return (LockHolder(process: process, isStopped: isStopped), target)
            }
        }
        return nil
    }

    /// Whether an open file has a lock of flock(2), according to its fdinfo file (proc_pid_fdinfo(5)).
    private static func hasLock(_ path: String) -> Bool {
        let text = (try? SmallFile.text(path)) ?? nil
        return text?.split(separator: "\n").contains { $0.hasPrefix("lock:") && $0.contains("FLOCK") } ?? false
    }

    /// Resolves the links in a path, as far as its folders exist.
    private static func resolved(_ path: String) -> String {
        if let resolved = unsafe realpath(path, nil) {
            defer { unsafe free(resolved) }
            return unsafe String(cString: resolved)
        }
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return path }
        return resolved(String(path[..<slash])) + path[slash...]
    }
}
