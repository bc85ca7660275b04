// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Finds mounts over single files in /proc/self/mountinfo (proc_pid_mountinfo(5)).
enum MountedFile {
    /// Returns the number of the mount that covers the file at `path`; `nil` if there is none, or the list cannot be
    /// read.
    static func mount(over path: String) -> Int? {
        guard let text = (try? SmallFile.text("/proc/self/mountinfo")) ?? nil else { return nil }
        return mount(over: ResolverControl.target(path) ?? path, in: text)
    }

    /// - Parameter text: Lines with mount, parent, device, root and mount point, in the order of mounting.
    static func mount(over path: String, in text: String) -> Int? {
        let line = text.split(separator: "\n").last { line in
            let words = line.split(separator: " ", maxSplits: 5)
            return words.count > 4 && words[4] == path
        }
        return line?.split(separator: " ").first.flatMap { Int($0) }
    }
}
