// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The cores at hand.
    package enum ProcessorCount {
        /// Returns the number of cores on which threads of this process may run.
        package static func forLanes() -> Int {
            // Room for 1024 cores. The limit of a container or of taskset counts, not the machine's number of cores.
            var set = [UInt64](repeating: 0, count: 16)
            let isKnown = unsafe set.withUnsafeMutableBytes { bytes in
                unsafe ctunnel_affinity(bytes.baseAddress, bytes.count) == 0
            }
            guard isKnown else { return max(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 1) }
            return max(set.reduce(0) { $0 + $1.nonzeroBitCount }, 1)
        }
    }
#endif
