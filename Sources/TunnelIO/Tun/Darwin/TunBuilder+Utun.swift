// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension TunBuilder {
    /// Creates a utun interface through the calls of `system`. If this throws, no interface is left.
    func build<System: UtunSystem>(on system: System) throws(TunnelIOError) -> Utun<System> {
        var problems: [String] = []
        if txQueueLength != nil { problems.append("a queue length is supported on Linux only") }
        if isMultiQueue { problems.append("several queues are for Linux only") }
        if isPersistent { problems.append("persistent interfaces are for Linux only") }
        if owner != nil || group != nil { problems.append("an owner or group is supported on Linux only") }
        let name = name ?? "utun"
        if UtunFraming.unit(of: name) == nil { problems.append("'\(name)' is not 'utun' with or without a number") }
        try validate(also: problems)
        let tun = try Utun(name: name, mtu: mtu, system: system)
        do throws(TunnelIOError) {
            for address in addresses { try tun.add(address) }
            // Last: adding an address brings the interface up.
            try tun.setUp(isUp)
        } catch {
            tun.close()
            throw error
        }
        return tun
    }
}
