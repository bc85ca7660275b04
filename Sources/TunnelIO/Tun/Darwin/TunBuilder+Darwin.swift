// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    extension TunBuilder {
        /// Makes the interface, as root, on macOS. Options of Linux only, and addresses, which the network settings of a
        /// tunnel bring, are refused.
        /// - Throws: `.invalidOptions` with everything that is wrong; else as ``DarwinTun/init(name:mtu:)``.
        public func build() throws(TunnelIOError) -> DarwinTun {
            var problems: [String] = []
            if !addresses.isEmpty { problems.append("addresses are set by the network settings on this system") }
            if txQueueLength != nil { problems.append("a queue length is for Linux only") }
            if isMultiQueue { problems.append("several queues are for Linux only") }
            if isPersistent { problems.append("persistent interfaces are for Linux only") }
            if owner != nil || group != nil { problems.append("an owner or group is for Linux only") }
            let name = name ?? "utun"
            if UtunFraming.unit(of: name) == nil { problems.append("'\(name)' is not 'utun' with or without a number") }
            try validate(also: problems)
            let tun = try DarwinTun(name: name, mtu: mtu)
            try tun.setUp(isUp)
            return tun
        }
    }
#endif
