// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem

/// Reports new files in a folder, writes to kernel settings, and changes of resolv.conf, by inotify(7). It reports a
/// write to a setting only if the write uses the same proc file system. The number of inotify descriptors per user is
/// small, so one descriptor serves all three.
final class FolderNotices: Sendable {
    /// Adds a watch of a path and events to a descriptor, as inotify_add_watch does.
    typealias AddWatch = @Sendable (Int32, String, UInt32) -> Int32

    let descriptor: OwnedDescriptor
    private let folder: String
    private let settings: [String]
    private let resolver: String?
    private let resolverWatches = Mutex(ResolverWatches())
    private let addWatch: AddWatch
    /// The name that stands for any kernel setting.
    static let setting = ""
    /// The name that stands for resolv.conf and the file that it links to. No file can have this name.
    static let resolver = "/"

    /// The numbers of the watches for resolv.conf.
    private struct ResolverWatches {
        /// The watch of resolv.conf's folder, in which other files are ignored.
        var folder: Int32?
        /// The watches of the file that resolv.conf links to and of its folder, and earlier such watches.
        var targets: Set<Int32> = []
        /// The watches of all folders on the paths to both files. Only a new name of such a folder counts.
        var ancestors: Set<Int32> = []
        /// Whether the watches report every change of the file, except by mounts.
        var isComplete = false
    }

    /// - Returns: `nil` if the folder cannot be watched.
    init?(
        _ folder: String, settings: [String] = [], resolver: String? = nil,
        addWatch: @escaping AddWatch = { unsafe inotify_add_watch($0, $1, $2) }
    ) {
        (self.folder, self.settings, self.resolver, self.addWatch) = (folder, settings, resolver, addWatch)
        let number = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard number >= 0 else { return nil }
        descriptor = OwnedDescriptor(number)
        guard watch() else { return nil }
    }

    private func watch() -> Bool {
        for setting in settings { _ = add(setting, IN_MODIFY) }
        watchResolver()
        return add(folder, IN_MOVED_TO) != nil
    }

    /// - Returns: The number of the watch; `nil` if the file cannot be watched.
    private func add(_ path: String, _ events: Int32) -> Int32? {
        let number = addWatch(descriptor.number, path, UInt32(events | IN_MASK_ADD))
        return number < 0 ? nil : number
    }

    /// Whether inotify reports every change of resolv.conf, except by mounts. It does not if a watch could not be added, if
    /// the file is missing, or if there is a second link on the way to it.
    var isResolverComplete: Bool { resolverWatches.withLock { $0.isComplete } }

    /// Watches resolv.conf and the file that it links to now, because either may be replaced or overwritten.
    func watchResolver() {
        guard let resolver else { return }
        let inFolder = IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_CLOSE_WRITE
        let present = ResolverControl.target(resolver)
        let link = Self.linkTarget(of: resolver)
        let target = present ?? link
        let (folder, targetFolder) = (Self.folder(of: resolver), Self.folder(of: target))
        resolverWatches.withLock { watches in
            watches.folder = add(folder, inFolder)
            // The events of a file that is mounted over another one occur elsewhere, so watch the file itself.
            var targets = [add(target, IN_CLOSE_WRITE | IN_MODIFY)]
            if targetFolder != folder { targets.append(add(targetFolder, inFolder)) }
            for case let number? in targets where number != watches.folder { watches.targets.insert(number) }
            let ancestors = Self.ancestors(of: folder).union(Self.ancestors(of: targetFolder)).map {
                add($0, IN_MOVE_SELF)
            }
            watches.ancestors.formUnion(ancestors.compactMap(\.self))
            // The resolved path differs from the link's text if a component of it is another link.
            watches.isComplete =
                present == Self.plain(link) && watches.folder != nil && !targets.contains(nil)
                && !ancestors.contains(nil)
        }
    }

    /// Returns the file that a link refers to; the path itself if it is not a link.
    private static func linkTarget(of path: String) -> String {
        guard let link = SystemCall.linkTarget(path) else { return path }
        return link.hasPrefix("/") ? link : folder(of: path) + "/" + link
    }

    /// Returns an absolute path without `.`, `..` and empty components. It is the same file if no component is a link.
    private static func plain(_ path: String) -> String {
        var parts: [Substring] = []
        for part in path.split(separator: "/") where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        return "/" + parts.joined(separator: "/")
    }

    /// Returns a folder and the folders above it, without the root.
    private static func ancestors(of folder: String) -> Set<String> {
        var folders: Set<String> = []
        var folder = folder
        while folder != "/" {
            folders.insert(folder)
            folder = Self.folder(of: folder)
        }
        return folders
    }

    private static func folder(of path: String) -> String {
        "/" + path.split(separator: "/").dropLast().joined(separator: "/")
    }

    /// Returns the names of new files, ``setting`` if a setting was written, and ``resolver`` if resolv.conf changed;
    /// `nil` if events were lost.
    func changed() -> [String]? {
        var names: [String] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe SystemCall.read(descriptor.number, into: $0) }
            guard count > 0 else { break }
            for event in Self.events(in: buffer[..<count]) {
                if let isResolver = isAboutResolver(event) {
                    if isResolver { names.append(Self.resolver) }
                } else if event.isLoss {
                    // The folder itself may have been removed and recreated.
                    _ = watch()
                    return nil
                } else {
                    names.append(event.name)
                }
            }
        }
        // Another file may have replaced it, so watch that one too.
        if names.contains(Self.resolver) { watchResolver() }
        return names
    }

    /// Whether an event is about resolv.conf; `nil` if another watch reports it.
    private func isAboutResolver(_ event: Event) -> Bool? {
        resolverWatches.withLock { watches in
            if event.isLoss, watches.targets.remove(event.watch) != nil { return true }
            if watches.targets.contains(event.watch) { return true }
            if event.isMove, watches.ancestors.contains(event.watch) { return true }
            guard event.watch == watches.folder, !event.isLoss else { return nil }
            return resolver?.hasSuffix("/" + event.name)
        }
    }

    /// An event of a watch.
    struct Event {
        /// The number of the watch.
        var watch: Int32
        /// Whether events were lost, or the watch ended because its file was removed.
        var isLoss: Bool
        /// Whether the watched file or folder itself has another name now.
        var isMove: Bool
        /// The file's name; empty if the file itself is watched.
        var name: String
    }

    /// Parses `struct inotify_event` records: watch, mask, cookie, length of the rest, and a name padded with zeros.
    static func events(in bytes: ArraySlice<UInt8>) -> [Event] {
        var (events, rest): ([Event], ArraySlice<UInt8>) = ([], bytes)
        while rest.count >= 16 {
            func number(_ offset: Int) -> UInt32 {
                (0..<4).reduce(0) { $0 | UInt32(rest[rest.startIndex + offset + $1]) << (8 * UInt32($1)) }
            }
            let name = rest.dropFirst(16).prefix(Int(number(12)))
            events.append(
                Event(
                    watch: Int32(bitPattern: number(0)), isLoss: number(4) & UInt32(IN_Q_OVERFLOW | IN_IGNORED) != 0,
                    isMove: number(4) & UInt32(IN_MOVE_SELF) != 0,
                    name: String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)))
            rest = rest.dropFirst(16 + name.count)
        }
        return events
    }
}
