// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Anonymous pages from the system, given back whole when the last owner goes.
@safe
final class PageMapping {
    let base: UnsafeMutableRawPointer
    let byteCount: Int

    /// Zeroed pages of at least `byteCount` bytes.
    init(byteCount: Int) throws(TunnelIOError) {
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        let rounded = (byteCount + page - 1) / page * page
        let region = unsafe mmap(nil, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let region = unsafe region, unsafe region != MAP_FAILED else {
            throw TunnelIOError(.outOfMemory(byteCount: rounded), errno: errno)
        }
        unsafe base = region
        self.byteCount = rounded
    }

    deinit {
        unsafe _ = munmap(base, byteCount)
    }
}
