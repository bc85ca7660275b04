// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// The file that this program was started from, without symbolic links.
    func executableFile() -> String? {
        var size = UInt32(0)
        unsafe _ = _NSGetExecutablePath(nil, &size)
        var bytes = [CChar](repeating: 0, count: Int(size) + 1)
        guard unsafe _NSGetExecutablePath(&bytes, &size) == 0, let path = unsafe realpath(bytes, nil) else {
            return nil
        }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }
#endif
