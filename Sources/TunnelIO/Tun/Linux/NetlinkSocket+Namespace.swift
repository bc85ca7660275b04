// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    extension NetlinkSocket {
        /// A socket for requests in another namespace than the calling thread's.
        static func make(in namespace: consuming NetworkNamespace) throws(TunnelIOError) -> NetlinkSocket {
            let made = try namespace.run { (number: NetlinkSocket.open(), reason: errno) }
            guard made.number >= 0 else {
                throw TunnelIOError(.socket(operation: "open a netlink socket"), errno: made.reason)
            }
            do throws(SystemError) { return try NetlinkSocket(made.number) } catch { throw TunnelIOError(error) }
        }

        /// A socket in the calling thread's namespace that receives the messages of these groups.
        static func make(groups: [Int32] = []) throws(TunnelIOError) -> NetlinkSocket {
            do throws(SystemError) { return try NetlinkSocket(groups: groups) } catch { throw TunnelIOError(error) }
        }

        /// The ID of `namespace` in the socket's own namespace; the kernel assigns one if there is none.
        /// - Returns: `nil` if the kernel assigns none.
        func identifier(of namespace: borrowing NetworkNamespace) -> Int32? {
            let target = namespace.descriptor.number
            if let id = ask(about: target, assigns: false) { return id }
            _ = ask(about: target, assigns: true)
            return ask(about: target, assigns: false)
        }

        private func ask(about namespace: Int32, assigns: Bool) -> Int32? {
            let request = NetlinkMessage.namespaceRequest(descriptor: namespace, assigns: assigns)
            for reply in (try? exchange(request, "ask for a namespace's id")) ?? [] {
                if case .namespace(let id)? = NetlinkMessage(reply), id >= 0 { return id }
            }
            return nil
        }
    }
#endif
