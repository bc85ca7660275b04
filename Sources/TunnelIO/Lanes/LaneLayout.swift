// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The distribution of a tunnel's work over threads. Each layout keeps the packets of a flow in order.
public enum LaneLayout: Hashable, Sendable {
    /// The best layout for a host with few peers: one thread on one or two cores, otherwise one for each direction. On Apple
    /// platforms always one thread.
    ///
    /// On two cores one thread was measured to be the fastest, since the programs behind the tunnel need the cores too: there
    /// are fewer context switches, and the thread finds more work each time.
    case automatic
    /// The best layout for a host with many peers: on at least four cores a lane for each core, at most
    /// ``mostServerLanes``, otherwise ``automatic``.
    case server
    /// One thread for both directions.
    case single
    /// One thread from the device to the network, which also handles timers, and one for the other direction.
    case perDirection
    /// Several lanes, each a thread with a separate queue of the device and separate sockets.
    ///
    /// The system distributes flows over the queues and peers over the sockets: all datagrams of one peer arrive on one
    /// lane. So lanes help only with several peers.
    ///
    /// - lanes: 1 to ``mostLanes``. More than one need a device with several queues.
    case many(lanes: Int)

    /// The most lanes.
    public static let mostLanes = 64
    /// The most lanes of ``server``. By the model in `docs/performance/README.md`, this number keeps the lock of the engine
    /// busy for half of the time. Further lanes would increasingly wait for it.
    public static let mostServerLanes = 16
    /// The fewest cores for which ``server`` uses lanes. On fewer, the programs behind the tunnel need them.
    private static let fewestServerCores = 4

    /// A layout by its name: `auto`, `server`, `1` (one thread), `2` (one for each direction), or a number of lanes from 3;
    /// `nil` for anything else.
    ///
    /// In `4+2`, the form of earlier versions, the second number is ignored. So `2+0` is two lanes.
    public init?(_ text: String) {
        switch text {
        case "auto": self = .automatic
        case "server": self = .server
        case "1": self = .single
        case "2": self = .perDirection
        default:
            let parts = text.split(separator: "+", omittingEmptySubsequences: false)
            let numbers = parts.compactMap(Self.number)
            guard numbers.count == parts.count, parts.count <= 2, let lanes = numbers.first, lanes > 0 else {
                return nil
            }
            self = .many(lanes: lanes)
        }
    }

    /// Parses 0 to ``mostLanes``.
    private static func number(_ text: Substring) -> Int? {
        guard (1...2).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text).flatMap { $0 <= mostLanes ? $0 : nil }
    }

    /// Whether the device has to have more than one queue on this machine.
    public var needsQueues: Bool { queueCount > 1 }

    /// The number of queues of the device that the layout uses on this machine. Each has as many sockets and as much
    /// memory as a single lane.
    package var queueCount: Int {
        if case .many(let lanes) = resolved() { return lanes }
        return 1
    }

    /// The layout for this number of cores: ``automatic``, ``server`` and a single lane are replaced, and a number of lanes
    /// is brought within its bounds.
    package func resolved(cores: Int = ProcessorCount.forLanes()) -> LaneLayout {
        switch self {
        case .automatic: cores <= 2 ? .single : .perDirection
        case .server where cores >= Self.fewestServerCores: .many(lanes: min(cores, Self.mostServerLanes))
        case .server: LaneLayout.automatic.resolved(cores: cores)
        case .single, .perDirection: self
        case .many(let lanes): lanes <= 1 ? .single : .many(lanes: min(lanes, Self.mostLanes))
        }
    }

    /// Returns the layout limited to `count` queues: with fewer lanes, or for one queue the best layout with one.
    package func limited(to count: Int) -> LaneLayout {
        let wanted = queueCount
        guard wanted > max(count, 1) else { return self }
        return count > 1 ? .many(lanes: count) : .automatic
    }
}
