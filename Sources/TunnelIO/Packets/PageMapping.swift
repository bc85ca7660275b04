// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Anonymous pages of the system. `deinit` returns all of them; ``release(from:)`` returns a part earlier.
@safe
final class PageMapping {
    let base: UnsafeMutableRawPointer
    let byteCount: Int
    /// The offset from which pages were released and not reclaimed, to the end; `nil` if none were.
    private var releasedFrom: Int?

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

    /// The size of a page.
    static var pageSize: Int { Int(sysconf(Int32(_SC_PAGESIZE))) }

    /// Returns the memory of the pages from `offset`, rounded up to a page, to the end to the system. The address range
    /// stays; the content is lost. Call ``reclaim()`` before you use the range again.
    func release(from offset: Int) {
        let page = Self.pageSize
        let start = min((max(offset, 0) + page - 1) / page * page, byteCount)
        guard start < byteCount else { return }
        unsafe PageAdvice.release(base + start, byteCount - start)
        releasedFrom = start
    }

    /// Announces that released pages are used again.
    @inline(__always)
    func reclaim() {
        if releasedFrom != nil { reclaimReleased() }
    }

    @inline(never)
    private func reclaimReleased() {
        guard let start = releasedFrom else { return }
        unsafe PageAdvice.reclaim(base + start, byteCount - start)
        releasedFrom = nil
    }
}
