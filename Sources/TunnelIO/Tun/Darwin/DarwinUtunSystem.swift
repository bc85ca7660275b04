// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CTunnelSystem
    import Darwin

    /// The real system calls of utun. Not yet compiled or run on an Apple system.
    struct DarwinUtunSystem: UtunSystem {
        private static let controlName = "com.apple.net.utun_control"

        func connect(unit: UInt32) -> Int32 {
            let number = socket(CTUNNEL_PF_SYSTEM, SOCK_DGRAM, CTUNNEL_SYSPROTO_CONTROL)
            guard number >= 0 else { return -1 }
            var info = ctunnel_ctl_info()
            unsafe withUnsafeMutableBytes(of: &info.name) { unsafe $0.copyBytes(from: Self.controlName.utf8) }
            guard unsafe ctunnel_tun_ioctl_pointer(number, CTUNNEL_CTLIOCGINFO, &info) >= 0 else {
                return closeKeepingReason(number)
            }
            var address = ctunnel_sockaddr_ctl()
            address.length = UInt8(MemoryLayout<ctunnel_sockaddr_ctl>.size)
            address.family = UInt8(AF_SYSTEM)
            address.system_address = UInt16(CTUNNEL_AF_SYS_CONTROL)
            address.id = info.id
            address.unit = unit
            let result = unsafe withUnsafeBytes(of: &address) { bytes in
                unsafe Darwin.connect(
                    number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            }
            return result >= 0 ? number : closeKeepingReason(number)
        }

        private func closeKeepingReason(_ descriptor: Int32) -> Int32 {
            let reason = errno
            _ = close(descriptor)
            errno = reason
            return -1
        }

        func interfaceName(of descriptor: Int32) -> String? {
            unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { buffer in
                var length = socklen_t(buffer.count)
                guard
                    unsafe getsockopt(
                        descriptor, CTUNNEL_SYSPROTO_CONTROL, CTUNNEL_UTUN_OPT_IFNAME, buffer.baseAddress, &length) >= 0
                else { return nil }
                return unsafe String(decoding: buffer.prefix(Int(length)).prefix { $0 != 0 }, as: UTF8.self)
            }
        }

        func interfaceIndex(of name: String) -> UInt32 { unsafe if_nametoindex(name) }

        func setNonBlocking(_ descriptor: Int32) -> Int32 {
            let status = fcntl(descriptor, F_GETFL)
            guard status >= 0, fcntl(descriptor, F_SETFL, status | O_NONBLOCK) >= 0 else { return -1 }
            return fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }

        func setBufferSizes(_ byteCount: Int32, of descriptor: Int32) -> Int32 {
            var size = byteCount
            let length = socklen_t(MemoryLayout<Int32>.size)
            guard unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, length) >= 0 else { return -1 }
            return unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, length)
        }

        func receiveBufferSize(of descriptor: Int32) -> Int32 {
            var size: Int32 = 0
            var length = socklen_t(MemoryLayout<Int32>.size)
            guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, &length) >= 0 else { return -1 }
            return size
        }

        func setMaxPendingPackets(_ count: UInt32, of descriptor: Int32) -> Int32 {
            var count = count
            return unsafe setsockopt(
                descriptor, CTUNNEL_SYSPROTO_CONTROL, CTUNNEL_UTUN_OPT_MAX_PENDING_PACKETS, &count,
                socklen_t(MemoryLayout<UInt32>.size))
        }

        func mtu(of name: String) -> Int32 {
            var request = unsafe interfaceRequest(name)
            guard unsafe perform(CTUNNEL_SIOCGIFMTU, &request) >= 0 else { return -1 }
            return unsafe request.ifr_ifru.ifru_mtu
        }

        func setMTU(_ mtu: Int32, of name: String) -> Int32 {
            var request = unsafe interfaceRequest(name)
            unsafe request.ifr_ifru.ifru_mtu = mtu
            return unsafe perform(CTUNNEL_SIOCSIFMTU, &request)
        }

        func isUp(_ name: String) -> Int32 {
            var request = unsafe interfaceRequest(name)
            guard unsafe perform(CTUNNEL_SIOCGIFFLAGS, &request) >= 0 else { return -1 }
            return unsafe Int32(request.ifr_ifru.ifru_flags) & IFF_UP != 0 ? 1 : 0
        }

        func setUp(_ isUp: Bool, of name: String) -> Int32 {
            var request = unsafe interfaceRequest(name)
            guard unsafe perform(CTUNNEL_SIOCGIFFLAGS, &request) >= 0 else { return -1 }
            let flag = Int16(IFF_UP)
            let flags = unsafe request.ifr_ifru.ifru_flags
            unsafe request.ifr_ifru.ifru_flags = isUp ? flags | flag : flags & ~flag
            return unsafe perform(CTUNNEL_SIOCSIFFLAGS, &request)
        }

        func addAddress(_ request: UtunAddressRequest) -> Int32 {
            var bytes = request.bytes
            let operation = request.isIPv6 ? CTUNNEL_SIOCAIFADDR_IN6 : CTUNNEL_SIOCAIFADDR
            return unsafe bytes.withUnsafeMutableBytes {
                unsafe perform(operation, request.isIPv6 ? AF_INET6 : AF_INET, $0)
            }
        }

        private func interfaceRequest(_ name: String) -> ifreq {
            var request = unsafe ifreq()
            unsafe withUnsafeMutableBytes(of: &request.ifr_name) { unsafe $0.copyBytes(from: name.utf8.prefix(15)) }
            return unsafe request
        }

        private func perform(_ operation: UInt, _ request: inout ifreq) -> Int32 {
            unsafe withUnsafeMutableBytes(of: &request) { unsafe perform(operation, AF_INET, $0) }
        }

        private func perform(_ operation: UInt, _ family: Int32, _ request: UnsafeMutableRawBufferPointer) -> Int32 {
            let control = socket(family, SOCK_DGRAM, 0)
            guard control >= 0, let request = request.baseAddress else { return -1 }
            let result = unsafe ctunnel_tun_ioctl_pointer(control, operation, request)
            guard result >= 0 else { return closeKeepingReason(control) }
            _ = close(control)
            return result
        }

        func openLinkEvents() -> Int32 {
            let number = socket(PF_ROUTE, SOCK_RAW, 0)
            guard number >= 0 else { return -1 }
            return setNonBlocking(number) >= 0 ? number : closeKeepingReason(number)
        }

        func readLinkEvent(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
            unsafe Darwin.read(descriptor, buffer.baseAddress, buffer.count)
        }

        func read(_ descriptor: Int32, header: inout UInt32, packet: UnsafeMutableRawBufferPointer) -> Int {
            unsafe withUnsafeMutableBytes(of: &header) { head in
                unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { vectors in
                    unsafe vectors[0] = iovec(iov_base: head.baseAddress, iov_len: head.count)
                    unsafe vectors[1] = iovec(iov_base: packet.baseAddress, iov_len: packet.count)
                    return unsafe readv(descriptor, vectors.baseAddress, 2)
                }
            }
        }

        func write(_ descriptor: Int32, header: UInt32, packet: UnsafeRawBufferPointer) -> Int {
            var header = header
            return unsafe withUnsafeMutableBytes(of: &header) { head in
                unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { vectors in
                    unsafe vectors[0] = iovec(iov_base: head.baseAddress, iov_len: head.count)
                    unsafe vectors[1] = iovec(
                        iov_base: UnsafeMutableRawPointer(mutating: packet.baseAddress), iov_len: packet.count)
                    return unsafe writev(descriptor, vectors.baseAddress, 2)
                }
            }
        }
    }

    extension DarwinUtunSystem: UtunSearchSystem {
        func controlID(of descriptor: Int32) -> UInt32? {
            var address = ctunnel_sockaddr_ctl()
            var length = socklen_t(MemoryLayout<ctunnel_sockaddr_ctl>.size)
            let result = unsafe withUnsafeMutableBytes(of: &address) { bytes in
                unsafe getpeername(descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length)
            }
            guard result == 0, address.family == UInt8(AF_SYSTEM),
                address.system_address == UInt16(CTUNNEL_AF_SYS_CONTROL)
            else { return nil }
            return address.id
        }

        func utunControlID(through descriptor: Int32) -> UInt32? {
            var info = ctunnel_ctl_info()
            unsafe withUnsafeMutableBytes(of: &info.name) { unsafe $0.copyBytes(from: Self.controlName.utf8) }
            guard unsafe ctunnel_tun_ioctl_pointer(descriptor, CTUNNEL_CTLIOCGINFO, &info) >= 0 else { return nil }
            return info.id
        }

        func descriptorLimit() -> Int32 { getdtablesize() }
    }
#endif
