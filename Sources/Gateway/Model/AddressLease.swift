// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import Provisioning

/// How full a pool is.
package struct PoolFigures: Hashable, Sendable {
    package let network: IPPrefix
    /// How many devices there is room for; `Int.max` for more than can be counted.
    package let capacity: Int
    package let inUse: Int
    /// Given back less than the rest ago.
    package let resting: Int

    package init(network: IPPrefix, capacity: Int, inUse: Int, resting: Int) {
        self.network = network
        self.capacity = capacity
        self.inUse = inUse
        self.resting = resting
    }
}

extension PoolFigures: Declared {
    package static let message = Message<PoolFigures> {
        Field("network", \.network, .network)
        Field("capacity", \.capacity, .count)
        Field("inUse", \.inUse, .count)
        Field("resting", \.resting, .count)
    }
}
