// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import Provisioning

/// The use of an address pool.
package struct PoolFigures: Hashable, Sendable {
    package let network: IPPrefix
    /// The largest number of devices; `Int.max` if it does not fit.
    package let capacity: Int
    package let inUse: Int
    /// The number of addresses in cooldown.
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
