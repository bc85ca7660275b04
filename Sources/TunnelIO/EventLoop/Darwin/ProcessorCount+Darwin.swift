// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The cores at hand.
    package enum ProcessorCount {
        /// One: a tunnel in an app extension shares the device with everything else, and is the better the less it runs.
        package static func forLanes() -> Int { 1 }
    }
#endif
