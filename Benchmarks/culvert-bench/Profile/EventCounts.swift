// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The system calls, switches and packets of a transfer.
struct EventCounts {
    /// System calls of one kind.
    struct Calls: Equatable {
        var count = 0
        /// The number that returned an error, in most cases because no data was waiting.
        var failed = 0
    }

    /// Packets at one place of the path. A packet that the kernel will cut into segments later counts as one.
    struct Packets: Equatable {
        var count = 0
        var bytes = 0
        var segments = 0

        fileprivate mutating func add(bytes length: Int, segments parts: Int) {
            count += 1
            bytes += length
            segments += max(parts, 1)
        }
    }

    /// The place on the path.
    enum Point: String, CaseIterable {
        case readBySender = "Sending end, read from the TUN device"
        case sentBySender = "Sending end, UDP messages sent"
        case writtenByReceiver = "Receiving end, written to the TUN device"
        case readByReceiver = "Receiving end, read from the TUN device (acknowledgements)"
        case sentByReceiver = "Receiving end, UDP messages sent (acknowledgements)"
        case writtenBySender = "Sending end, written to the TUN device (acknowledgements)"
    }

    /// The network devices of the two ends.
    struct Devices {
        /// The TUN device of the sending end.
        var senderTun: String
        var receiverTun: String
        /// The device below the tunnel, which has one name at both ends.
        var wire: String
    }

    private(set) var calls: [Place: [Work: Calls]] = [:]
    /// The number of times that a process waited and had to be woken up.
    private(set) var waits: [Place: Int] = [:]
    /// The number of times that a process was ready, but had to leave the processor to another.
    private(set) var preemptions: [Place: Int] = [:]
    /// All context switches of the machine, with those of the idle loop.
    private(set) var switches = 0
    private(set) var wakeUps = 0
    /// Soft interrupts that deliver packets.
    private(set) var netReceiveInterrupts = 0
    private(set) var packets: [Point: Packets] = [:]

    /// The tracepoints to record. A kernel lacks those of system calls that its architecture does not have.
    static let tracepoints =
        Work.callNames.map { "\(callExit)\($0)" } + [
            "sched:sched_switch", "sched:sched_wakeup", "irq:softirq_entry", "net:net_dev_start_xmit",
            "net:netif_receive_skb_entry",
        ]

    private static let callExit = "syscalls:sys_exit_"

    init(_ events: [PerfScript.Event], _ roles: Roles, _ devices: Devices) {
        for event in events { count(event, roles, devices) }
    }

    private mutating func count(_ event: PerfScript.Event, _ roles: Roles, _ devices: Devices) {
        let place = roles.place(process: event.process, command: event.command) ?? .others
        switch event.name {
        case "sched:sched_switch":
            switches += 1
            guard event.process != 0 else { break }
            // A process that is ready to run is in state R, or R+ if the kernel preempted it.
            if event.field("prev_state")?.first == "R" {
                preemptions[place, default: 0] += 1
            } else {
                waits[place, default: 0] += 1
            }
        case "sched:sched_wakeup": wakeUps += 1
        case "irq:softirq_entry":
            if event.text.contains("[action=NET_RX]") { netReceiveInterrupts += 1 }
        case "net:net_dev_start_xmit", "net:netif_receive_skb_entry": countPacket(event, place, devices)
        case _ where event.name.hasPrefix(Self.callExit):
            let work = Work(call: event.name.dropFirst(Self.callExit.count))
            calls[place, default: [:]][work, default: Calls()].count += 1
            let value = event.text.drop { $0 == " " }
            // A result is printed as an unsigned number; errors are -4095 to -1.
            if value.hasPrefix("0x"), let result = UInt64(value.dropFirst(2), radix: 16),
                Int64(bitPattern: result) < 0
            {
                calls[place]?[work]?.failed += 1
            }
        default: break
        }
    }

    private mutating func countPacket(_ event: PerfScript.Event, _ place: Place, _ devices: Devices) {
        guard let device = event.field("dev"), let length = event.field("len").flatMap({ Int($0) }) else { return }
        let segments = event.field("gso_segs").flatMap { Int($0) } ?? 1
        let isTransmitted = event.name == "net:net_dev_start_xmit"
        let point: Point
        switch (String(device), isTransmitted) {
        case (devices.senderTun, true): point = .readBySender
        case (devices.receiverTun, true): point = .readByReceiver
        case (devices.senderTun, false): point = .writtenBySender
        case (devices.receiverTun, false): point = .writtenByReceiver
        case (devices.wire, true) where place == .sender: point = .sentBySender
        case (devices.wire, true) where place == .receiver: point = .sentByReceiver
        default: return
        }
        packets[point, default: Packets()].add(bytes: length, segments: segments)
    }

    /// The counts per gigabyte of received data, and the mean sizes.
    func figures(gigabytes: Double) -> [ProfileFigure] {
        var figures: [ProfileFigure] = []
        func add(_ part: String, _ name: String, _ count: Int) {
            figures.append(ProfileFigure(part, name, .perGigabyte, Double(count) / gigabytes))
        }
        let machine = ProfileFigure.machine
        add(machine, "context switches", switches)
        add(machine, "processes woken up", wakeUps)
        add(machine, "soft interrupts with packets", netReceiveInterrupts)
        for place in [Place.sender, .receiver, .loadSender, .loadReceiver] {
            for work in [Work.read, .write, .send, .receive, .poll, .futex] {
                let counted = calls[place]?[work] ?? Calls()
                add(place.rawValue, "\(work.rawValue) calls", counted.count)
                add(place.rawValue, "\(work.rawValue) calls that failed", counted.failed)
            }
            add(place.rawValue, "waits", waits[place] ?? 0)
            add(place.rawValue, "preemptions", preemptions[place] ?? 0)
        }
        for point in Point.allCases {
            let counted = packets[point] ?? Packets()
            add(point.rawValue, "packets", counted.count)
            let count = Double(counted.count)
            figures.append(ProfileFigure(point.rawValue, "mean size", .bytes, Double(counted.bytes) / count))
            if point != .writtenBySender, point != .writtenByReceiver {
                figures.append(
                    ProfileFigure(point.rawValue, "mean segments", .segments, Double(counted.segments) / count))
            }
        }
        return figures
    }
}
