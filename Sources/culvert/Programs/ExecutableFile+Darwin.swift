// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import TunnelSystem

    /// The file that this program was started from, without symbolic links.
    func executableFile() -> String? {
        guard let path = unsafe realpath(SpawnPlatform.ownProgram, nil) else { return nil }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }
#endif
