// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The distribution of a tunnel's work over threads. Each layout keeps the packets of a flow in order.
public enum LaneLayout: Hashable, Sendable {
    /// The best layout for the machine: one thread on one or two cores, otherwise one for each direction. On Apple platforms
    /// always one thread.
    ///
    /// On two cores one thread was measured to be the fastest, since the programs behind the tunnel need the cores too: there
    /// are fewer context switches, and the thread finds more work each time. The automatic layout never uses more lanes,
    /// since they help only with several peers.
    case automatic
    /// One thread for both directions.
    case single
    /// One thread from the device to the network, which also handles timers, and one for the other direction.
    case perDirection
    /// Several lanes, and worker threads that encrypt and decrypt.
    ///
    /// Each lane is a thread with a separate queue of the device and separate sockets. The system distributes flows over the
    /// queues and peers over the sockets: all datagrams of one peer arrive on one lane.
    ///
    /// - lanes: 1 to mostLanes. More than one need a device with several queues.
    /// - workers: 0 to mostWorkers threads, which process whole batches of the lanes. The results are sent in the order in
    ///   which the batches arrived.
    case many(lanes: Int, workers: Int)

    /// The most lanes.
    public static let mostLanes = 64
    /// The most workers.
    public static let mostWorkers = 64

    /// A layout by its name: `auto`, `1` (one thread), `2` (one for each direction), a number of lanes from 3, or
    /// lanes and workers as in `4+2`; `nil` for anything else.
    public init?(_ text: String) {
        switch text {
        case "auto": self = .automatic
        case "1": self = .single
        case "2": self = .perDirection
        default:
            let parts = text.split(separator: "+", omittingEmptySubsequences: false)
            guard parts.count <= 2, let lanes = Self.number(parts.first), (1...Self.mostLanes).contains(lanes) else {
                return nil
            }
            guard parts.count == 2 else {
                self = .many(lanes: lanes, workers: 0)
                return
            }
            guard let workers = Self.number(parts.last), workers <= Self.mostWorkers else { return nil }
            self = .many(lanes: lanes, workers: workers)
        }
    }

    private static func number(_ text: Substring?) -> Int? {
        guard let text, (1...2).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
            return nil
        }
        return Int(text)
    }

    /// Whether the device has to have more than one queue.
    public var needsQueues: Bool {
        if case .many(let lanes, _) = self { return lanes > 1 }
        return false
    }

    /// The layout for this number of cores: ``automatic`` is replaced, and counts are brought within their bounds.
    func resolved(cores: Int) -> LaneLayout {
        switch self {
        case .automatic: return cores <= 2 ? .single : .perDirection
        case .single, .perDirection: return self
        case .many(let lanes, let workers):
            return .many(
                lanes: min(max(lanes, 1), Self.mostLanes), workers: min(max(workers, 0), Self.mostWorkers))
        }
    }

    /// Returns the layout limited to the memory of `count` lanes without workers. A lane with workers uses as much
    /// memory as four without; if not even one such lane fits, the result has no workers.
    package func limited(to count: Int) -> LaneLayout {
        guard case .many(let lanes, let workers) = self else { return self }
        let withWorkers = count / BatchPipeline.depth
        if workers > 0, withWorkers > 0 { return .many(lanes: min(lanes, withWorkers), workers: workers) }
        return .many(lanes: min(lanes, max(count, 1)), workers: 0)
    }

    /// The number of lanes without workers that use as much memory as this layout.
    package var memoryShares: Int {
        guard case .many(let lanes, let workers) = self else { return 1 }
        return workers > 0 ? lanes * BatchPipeline.depth : lanes
    }

    /// The number of socket pairs from which the lanes of this layout receive.
    var socketCount: Int {
        if case .many(let lanes, _) = self { return lanes }
        return 1
    }
}
