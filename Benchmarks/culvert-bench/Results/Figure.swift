// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The figures of a whole tunnel.
enum Figure: String, CaseIterable {
    case tcpOne, tcpFour, tcpBothWays, udp, udpLost, smallPackets, smallPacketsLost
    case idleMedian, idleLate, loadedMedian, loadedLate
    case costSender, costReceiver, costDaemons, costMachine
    case reordered, resent
    case memoryIdle, memoryPeak, memoryPerPeer
    case startUp, bringUp
    case handshakes, handshakeCost
    case spreadLeast, spreadMedian, spreadGreatest, spreadTotal, spreadCost, spreadIndex

    var title: String {
        switch self {
        case .tcpOne: "TCP, one stream"
        case .tcpFour: "TCP, four streams"
        case .tcpBothWays: "TCP, both directions at once, sum"
        case .udp: "UDP, 1300 bytes, received of an unpaced sender"
        case .udpLost: "UDP, 1300 bytes, lost"
        case .smallPackets: "UDP, 64 bytes, received of an unpaced sender"
        case .smallPacketsLost: "UDP, 64 bytes, lost"
        case .idleMedian: "Round trip, idle, median"
        case .idleLate: "Round trip, idle, 99th percentile"
        case .loadedMedian: "Round trip, under one TCP stream, median"
        case .loadedLate: "Round trip, under one TCP stream, 99th percentile"
        case .costSender: "CPU time, sending daemon, TCP one stream"
        case .costReceiver: "CPU time, receiving daemon, TCP one stream"
        case .costDaemons: "CPU time, both daemons, TCP one stream"
        case .costMachine: "CPU time, whole machine, TCP one stream"
        case .reordered: "Segments that arrived after a gap, TCP four streams"
        case .resent: "Segments sent again, TCP four streams"
        case .memoryIdle: "Resident memory, idle, larger daemon"
        case .memoryPeak: "Peak memory, after all, larger daemon"
        case .memoryPerPeer: "Anonymous memory that 1,000 idle peers add, each"
        case .startUp: "Start-up: from exec to the first answered ping"
        case .bringUp: "Bringing a tunnel up: from exec of the command to the first answered ping"
        case .handshakes: "Handshakes with 1,000 peers, one daemon"
        case .handshakeCost: "Handshakes with 1,000 peers, daemon's CPU time of each"
        case .spreadLeast: "100 peers, received of the slowest"
        case .spreadMedian: "100 peers, received of the median peer"
        case .spreadGreatest: "100 peers, received of the fastest"
        case .spreadTotal: "100 peers, received of all"
        case .spreadCost: "100 peers, daemon's CPU time"
        case .spreadIndex: "100 peers, Jain's index of fairness"
        }
    }

    var unit: Unit {
        switch self {
        case .tcpOne, .tcpFour, .tcpBothWays, .udp, .spreadTotal: .gigabitsPerSecond
        case .udpLost, .smallPacketsLost: .percent
        case .smallPackets: .millionPacketsPerSecond
        case .idleMedian, .idleLate, .loadedMedian, .loadedLate, .startUp, .bringUp: .milliseconds
        case .costSender, .costReceiver, .costDaemons, .costMachine, .spreadCost: .secondsPerGigabyte
        case .reordered, .resent: .perGigabyte
        case .memoryIdle, .memoryPeak: .mebibytes
        case .memoryPerPeer: .kibibytes
        case .handshakes: .perSecond
        case .handshakeCost: .microseconds
        case .spreadLeast, .spreadMedian, .spreadGreatest: .megabitsPerSecond
        case .spreadIndex: .index
        }
    }

    /// Whether a ratio of two contenders says something.
    var hasRatio: Bool {
        switch self {
        case .udpLost, .smallPacketsLost, .spreadIndex, .reordered, .resent: false
        default: true
        }
    }
}

/// The names of contenders that reports look for.
enum ContenderName {
    static let culvert = "culvert-wg"
    static let wireGuardGo = "wireguard-go"
    static let baseline = "C baseline"
    static let copy = "TUN to TUN, no AEAD"
    static let culvertUp = "culvert up"
    static let wgQuickUp = "wg-quick with culvert-wg"
}

/// The rows of `culvert-bench gateway` that reports look for.
enum GatewayFigure {
    static let suite = "Gateway with rules for many clients"
    static let (gateway, bare) = ("gateway", "culvert-wg alone")
    static let ratio = "\(gateway) / \(bare)"
    static let change = "change of one client's rules"
}
