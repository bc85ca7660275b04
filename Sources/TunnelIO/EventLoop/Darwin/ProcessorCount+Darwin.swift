// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The cores at hand.
    package enum ProcessorCount {
        /// Always 1: a tunnel in an app extension shares the device with other programs and should run as little as
        /// possible.
        package static func forLanes() -> Int { 1 }
    }
#endif
