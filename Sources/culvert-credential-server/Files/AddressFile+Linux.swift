// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import PacketTunnelLinux
    import TunnelIO
    import TunnelServer
    import TunnelSystem

    extension AddressPools {
        /// The number of addresses of each pool that are stored before a user gets them.
        private static let mostUpcoming = 64
        /// The time for which the stored ones are those that are given next, in nanoseconds: two seconds.
        private static let lead: Int64 = 2 * LaneClock.nanosecondsPerSecond

        /// The contents of the file of addresses.
        /// - Parameters:
        ///   - now: Nanoseconds of the clock of rests.
        ///   - isLast: Whether all sessions have ended.
        func file(at now: Int64, isLast: Bool) -> AddressFile {
            let next = isLast ? [] : upcoming(Self.mostUpcoming, at: now + Self.lead)
            let bootedAt = AddressFile.bootedAt(now)
            let used = uses(at: now).map { AddressFile.Entry($0, bootedAt: bootedAt) }
            // An address whose rest ends soon has one entry, without a user.
            let isNext = Set(next)
            var file = AddressFile()
            file.addresses =
                (used.filter { !isNext.contains($0.address) } + next.map { AddressFile.Entry(address: $0) })
                .sorted {
                    ($0.address.isIPv6 ? 1 : 0, $0.address.value) < ($1.address.isIPv6 ? 1 : 0, $1.address.value)
                }
            file.othersSince = othersRestSince(at: now).map { AddressFile.wallClock(of: $0, bootedAt: bootedAt) }
            (file.boot, file.bootedAt) = (AddressFile.presentBoot, bootedAt)
            return file
        }

        /// Has the addresses of an earlier run rest.
        /// - Parameter now: Nanoseconds of the clock of rests.
        mutating func restore(_ file: AddressFile, at now: Int64) {
            // After a crash, an address may have been in use since the file was written.
            let hasCrashed = file.isRunning == true
            restore(
                file.addresses.map { entry in
                    AddressUse(
                        entry.address, of: entry.login,
                        restsSince: hasCrashed ? nil : entry.since.map { file.time(of: $0, at: now) })
                }, at: now)
            if let since = file.othersSince { restOthers(since: file.time(of: since, at: now)) }
        }
    }

    extension AddressFile {
        /// The ID of the system's present boot.
        static let presentBoot: String? = (try? SmallFile.text("/proc/sys/kernel/random/boot_id")) ?? nil

        /// The time of the boot, in seconds since 1970.
        /// - Parameter now: Nanoseconds of the clock of rests, which starts at the boot.
        fileprivate static func bootedAt(_ now: Int64) -> Int64 {
            (ProcessEnvironment.wallClock() - now) / LaneClock.nanosecondsPerSecond
        }

        /// The seconds since 1970 at a time of the clock of rests.
        fileprivate static func wallClock(of time: Int64, bootedAt: Int64) -> Int64 {
            bootedAt + time / LaneClock.nanosecondsPerSecond
        }

        /// The time of the clock of rests at these seconds since 1970 of the file. It does not depend on the present wall clock, which
        /// may be wrong. A time of another boot, or in the future, counts as now.
        fileprivate func time(of seconds: Int64, at now: Int64) -> Int64 {
            guard let boot, boot == Self.presentBoot, let bootedAt else { return now }
            let age = now / LaneClock.nanosecondsPerSecond &- (seconds &- bootedAt)
            // No file that is not damaged has a larger one.
            guard (0...Int64(UInt32.max)).contains(age) else { return now }
            return now - age * LaneClock.nanosecondsPerSecond
        }
    }

    extension AddressFile.Entry {
        fileprivate init(_ use: AddressUse, bootedAt: Int64) {
            self.init(
                address: use.address, login: use.owner,
                since: use.restsSince.map { AddressFile.wallClock(of: $0, bootedAt: bootedAt) })
        }
    }
#endif
