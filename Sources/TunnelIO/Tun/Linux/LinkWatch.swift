// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// Follows one TUN device's interface through changes, renames and moves between network namespaces.
    ///
    /// One netlink socket, in the namespace in which the device was created or received, is used for the device's whole
    /// life. When the device moves to another namespace, that namespace gets an ID, and the socket listens to all
    /// namespaces with an ID. So the descriptor to wait on never changes. Deleting the other namespace still deletes
    /// the device, which an open socket inside that namespace would prevent. Without CAP_NET_BROADCAST, the kernel does
    /// not allow this: a move is then reported as `.down`, and nothing follows until the device is back or its
    /// descriptor reports its end.
    ///
    /// Not thread-safe; the device holds it in a lock.
    struct LinkWatch: ~Copyable, Sendable {
        /// Readable when there may be events.
        let events: NetlinkSocket
        /// The socket for requests. It is separate, so that replies do not mix with events.
        let requests: NetlinkSocket
        /// For ioctls on interfaces in the namespace of these sockets.
        private let control: OwnedDescriptor
        /// The namespace of these sockets; `nil` if the system does not report it.
        private let home: FileIdentity?
        private var place = Place.unknown
        private var isUp = false
        private var mtu = 0
        private var isRemoved = false

        /// The location of the interface.
        private enum Place: Equatable {
            case home(index: Int32)
            case away(namespace: Int32, index: Int32)
            /// In a namespace that this process may not enter.
            case unknown
        }

        /// Flags and MTU of an interface.
        struct State: Equatable {
            var isUp: Bool
            var mtu: Int
        }

        /// A watch in the network namespace of the calling thread. Call ``start(_:)`` first.
        init() throws(TunnelIOError) {
            let events = try NetlinkSocket.make(groups: [CTUNNEL_RTNLGRP_LINK, CTUNNEL_RTNLGRP_NSID])
            let requests = try NetlinkSocket.make()
            let socket = try SystemCall.check(.socket(operation: "open a control socket")) {
                NetworkNamespace.controlSocket()
            }
            self.events = events
            self.requests = requests
            control = OwnedDescriptor(socket)
            home = try? NetworkNamespace(ofSocket: socket).identity
        }

        /// Records the current state of the interface; ``drain(_:)`` reports changes relative to it.
        mutating func start(_ tun: Int32) {
            guard let state = locate(tun) else { return }
            (isUp, mtu) = (state.isUp, state.mtu)
        }

        /// The changes since the last call, oldest first.
        mutating func drain(_ tun: Int32) -> [LinkEvent] {
            var changes: [LinkEvent] = []
            // Messages after the removal are still read: a descriptor that stays readable would wake its loop forever.
            while true {
                switch events.receive() {
                case .nothing:
                    return changes
                case .overrun:
                    if !isRemoved { relocate(tun, into: &changes) }
                case .messages(let messages, let namespace):
                    for message in messages.compactMap(NetlinkMessage.init) where !isRemoved {
                        handle(message, from: namespace, of: tun, into: &changes)
                    }
                }
            }
        }

        private mutating func handle(
            _ message: NetlinkMessage, from namespace: Int32, of tun: Int32, into changes: inout [LinkEvent]
        ) {
            switch message {
            case .link(let index, let isUp, let mtu):
                if place == .unknown {
                    relocate(tun, into: &changes)
                } else if isHere(namespace, index) {
                    update(State(isUp: isUp, mtu: mtu ?? self.mtu), into: &changes)
                }
            case .linkRemoved(let index):
                if isHere(namespace, index) { relocate(tun, into: &changes) }
            case .namespaceRemoved(let id):
                // No message reports the removal of the interfaces in this namespace, and its ID is no longer valid.
                guard namespace == -1, case .away(id, _) = place else { return }
                isRemoved = true
                changes.append(.removed)
            case .namespace, .acknowledgement:
                return
            }
        }

        private func isHere(_ namespace: Int32, _ index: Int32) -> Bool {
            switch place {
            case .home(let present): namespace == -1 && index == present
            case .away(let id, let present): namespace == id && index == present
            case .unknown: false
            }
        }

        private mutating func update(_ state: State, into changes: inout [LinkEvent]) {
            if state.mtu != mtu {
                mtu = state.mtu
                changes.append(.mtu(mtu))
            }
            if state.isUp != isUp {
                isUp = state.isUp
                changes.append(isUp ? .up : .down)
            }
        }

        /// Finds the interface again, and reports the changes of its state, or its removal.
        private mutating func relocate(_ tun: Int32, into changes: inout [LinkEvent]) {
            if let state = locate(tun) {
                update(state, into: &changes)
            } else if Self.isGone(tun) {
                isRemoved = true
                changes.append(.removed)
            } else if isUp {
                // The kernel takes an interface down when it leaves a namespace.
                isUp = false
                changes.append(.down)
            }
        }

        /// Sets ``place``, subscribes the socket to that place, and reads the state after that, so that no change is missed.
        private mutating func locate(_ tun: Int32) -> State? {
            for _ in 0..<8 {
                place = .unknown
                var elsewhere: Int32?
                if let namespace = try? NetworkNamespace(ofDevice: tun), let home, namespace.identity != home {
                    guard
                        (try? events.setHearsOtherNamespaces(true)) != nil,
                        let id = requests.identifier(of: namespace)
                    else { return nil }
                    elsewhere = id
                } else {
                    try? events.setHearsOtherNamespaces(false)
                }
                guard let answer = try? query(tun) else {
                    if Self.isGone(tun) { return nil }
                    continue
                }
                // The interface may have moved between the two queries.
                guard answer.isHome == (elsewhere == nil) else { continue }
                place = elsewhere.map { .away(namespace: $0, index: answer.index) } ?? .home(index: answer.index)
                return answer.state
            }
            return nil
        }

        private static func isGone(_ tun: Int32) -> Bool {
            var request = InterfaceRequest()
            return request.perform(CTUNNEL_TUNGETIFF, on: tun) < 0
        }

        // MARK: - The interface now

        struct Answer {
            var state: State
            var index: Int32
            var isHome: Bool
        }

        func query(_ tun: Int32) throws(TunnelIOError) -> Answer {
            try onInterface(tun, "read the state") { (socket, request, isHome) throws(TunnelIOError) in
                func ask(_ operation: UInt) throws(TunnelIOError) {
                    guard request.perform(operation, on: socket) >= 0 else {
                        throw TunnelIOError(.device(name: request.name, operation: "read the state"), errno: errno)
                    }
                }
                try ask(CTUNNEL_SIOCGIFFLAGS)
                let isUp = request.flags & UInt16(CTUNNEL_IFF_UP) != 0
                try ask(CTUNNEL_SIOCGIFMTU)
                let mtu = Int(request.number)
                try ask(CTUNNEL_SIOCGIFINDEX)
                return Answer(state: State(isUp: isUp, mtu: mtu), index: request.number, isHome: isHome)
            }
        }

        /// The interface's present state.
        func state(_ tun: Int32) throws(TunnelIOError) -> State {
            try query(tun).state
        }

        /// Sets the MTU.
        func setMTU(_ mtu: Int, _ tun: Int32) throws(TunnelIOError) {
            let operation = "set the MTU to \(mtu)"
            try onInterface(tun, operation) { (socket, request, _) throws(TunnelIOError) in
                request.number = Int32(clamping: mtu)
                guard request.perform(CTUNNEL_SIOCSIFMTU, on: socket) >= 0 else {
                    throw TunnelIOError(.device(name: request.name, operation: operation), errno: errno)
                }
            }
        }

        /// Brings the interface up or takes it down.
        func setUp(_ isUp: Bool, _ tun: Int32) throws(TunnelIOError) {
            let operation = isUp ? "bring the interface up" : "take the interface down"
            try onInterface(tun, operation) { (socket, request, _) throws(TunnelIOError) in
                func ask(_ number: UInt) throws(TunnelIOError) {
                    guard request.perform(number, on: socket) >= 0 else {
                        throw TunnelIOError(.device(name: request.name, operation: operation), errno: errno)
                    }
                }
                try ask(CTUNNEL_SIOCGIFFLAGS)
                let flag = UInt16(CTUNNEL_IFF_UP)
                request.flags = isUp ? request.flags | flag : request.flags & ~flag
                try ask(CTUNNEL_SIOCSIFFLAGS)
            }
        }

        /// Runs interface ioctls on a socket in the device's namespace, with the device's current name.
        ///
        /// The name may change or the device may move between the query and the ioctl. So the work is repeated until both
        /// were the same before and after it. Reading and setting can both be repeated safely.
        func onInterface<Result>(
            _ tun: Int32, _ operation: String,
            _ body: (Int32, inout InterfaceRequest, _ isHome: Bool) throws(TunnelIOError) -> Result
        ) throws(TunnelIOError) -> Result {
            var failure = TunnelIOError(.device(name: "", operation: operation), errno: ENODEV)
            for _ in 0..<8 {
                let name = try Self.name(of: tun)
                do throws(TunnelIOError) {
                    var request = InterfaceRequest(name: name)
                    let result: Result
                    if let namespace = try? NetworkNamespace(ofDevice: tun), let home, namespace.identity != home {
                        let socket = try namespace.makeControlSocket()
                        result = try body(socket.number, &request, false)
                    } else {
                        result = try body(control.number, &request, true)
                    }
                    if try Self.name(of: tun) == name { return result }
                } catch {
                    failure = error
                    if case .deviceRemoved = error.code { throw error }
                    guard error.errno == ENODEV || error.errno == ENXIO else { throw error }
                }
            }
            throw failure
        }

        /// The interface's present name.
        static func name(of tun: Int32) throws(TunnelIOError) -> String {
            var request = InterfaceRequest()
            guard request.perform(CTUNNEL_TUNGETIFF, on: tun) >= 0 else {
                throw TunnelIOError(.deviceRemoved(name: ""), errno: errno)
            }
            return request.name
        }
    }
#endif
