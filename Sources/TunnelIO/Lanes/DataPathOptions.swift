// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The threads and the sizes of a data path, in the same form for all kinds of tunnels.
///
/// A provider's environment has one value and passes it to its device as a whole, so a new option for lanes needs a
/// member here only.
public struct DataPathOptions: Hashable, Sendable {
    /// The distribution of the work over threads. More than one lane needs a device with several queues.
    public var layout: LaneLayout
    /// The batches and the limits of each lane; `nil` for those of the memory budget, or the defaults if there is no budget.
    public var lane: LaneConfiguration?

    /// The options of a data path.
    public init(layout: LaneLayout = .automatic, lane: LaneConfiguration? = nil) {
        self.layout = layout
        self.lane = lane
    }

    /// The batches and the limits of each lane.
    /// - Parameter budget: The sizes from the memory budget, which ``lane`` replaces.
    package func configuration(within budget: LaneConfiguration? = nil) -> LaneConfiguration {
        lane ?? budget ?? LaneConfiguration()
    }
}
