// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Anonymous pages from the system, given back whole when the last owner goes, and in part before that.
@safe
final class PageMapping {
    let base: UnsafeMutableRawPointer
    let byteCount: Int
    /// What was released and has not been taken back, from this offset to the end; nil for nothing.
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

    /// Gives the memory of the pages from `offset`, rounded up to a page, to the end back to the system. The address
    /// range stays; what was there is lost. Call ``reclaim()`` before the range is used again.
    func release(from offset: Int) {
        let page = Self.pageSize
        let start = min((max(offset, 0) + page - 1) / page * page, byteCount)
        guard start < byteCount else { return }
        unsafe PageAdvice.release(base + start, byteCount - start)
        releasedFrom = start
    }

    /// Announces that what was released is used again.
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
