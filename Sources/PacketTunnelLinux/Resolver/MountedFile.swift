// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Mounts over single files, as /proc/self/mountinfo lists them (proc_pid_mountinfo(5)).
enum MountedFile {
    /// The number of the mount that covers the file at `path`; `nil` if none does, or the list cannot be read.
    static func mount(over path: String) -> Int? {
        guard let text = (try? SmallFile.text("/proc/self/mountinfo")) ?? nil else { return nil }
        return mount(over: ResolverControl.target(path) ?? path, in: text)
    }

    /// - Parameter text: lines of mount, parent, device, root and mount point, in the order in which they were mounted.
    static func mount(over path: String, in text: String) -> Int? {
        let line = text.split(separator: "\n").last { line in
            let words = line.split(separator: " ", maxSplits: 5)
            return words.count > 4 && words[4] == path
        }
        return line?.split(separator: " ").first.flatMap { Int($0) }
    }
}
