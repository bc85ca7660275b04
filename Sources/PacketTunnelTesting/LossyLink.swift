// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The treatment of messages by a ``LossyLink``. Probabilities are from 0 to 1.
public struct LinkConditions: Sendable {
    /// The probability that a message is lost.
    public var loss: Double
    /// The probability that a message arrives twice.
    public var duplication: Double
    /// The probability that a copy is damaged on the way.
    public var corruption: Double
    /// The time a copy takes, each time in the range equally likely. Messages overtake each other when it is wide.
    public var delay: ClosedRange<Duration>

    /// Conditions; by default those of a perfect link.
    public init(
        loss: Double = 0, duplication: Double = 0, corruption: Double = 0,
        delay: ClosedRange<Duration> = .zero ... .zero
    ) {
        self.loss = loss
        self.duplication = duplication
        self.corruption = corruption
        self.delay = delay
    }

    /// A link that loses, doubles, damages and reorders nothing and takes no time.
    public static let perfect = LinkConditions()
}

/// The statistics of a ``LossyLink``.
public struct LinkStatistics: Hashable, Sendable {
    /// Messages handed to the link.
    public var sent = 0
    /// Messages that were dropped.
    public var lost = 0
    /// Messages that were sent on twice.
    public var duplicated = 0
    /// Copies that were damaged.
    public var corrupted = 0
    /// Copies delivered that an older message's copy came after.
    public var overtaken = 0
    /// Copies delivered.
    public var delivered = 0

    /// All zero.
    public init() {}
}

/// One direction of a lossy network in memory, in virtual time: the seed determines the fate of each message.
///
/// Times are nanoseconds on the caller's clock, like ``FakeClock/nanoseconds``.
public struct LossyLink<Message> {
    private struct Copy {
        var arrival: Int64
        /// Breaks ties, so that equal delays keep the order.
        var sequence: Int
        /// The number of the message, in order of sending.
        var number: Int
        var message: Message
    }

    /// The conditions for messages sent from now on.
    public var conditions: LinkConditions
    /// The statistics of the link.
    public private(set) var statistics = LinkStatistics()

    private var generator: SeededGenerator
    private let corrupt: (inout Message, inout SeededGenerator) -> Void
    /// In order of arrival, the next one last.
    private var inFlight: [Copy] = []
    private var nextSequence = 0
    private var highestDelivered = -1

    /// A link whose behaviour follows from `seed`; `corrupt` damages a message.
    public init(
        _ conditions: LinkConditions = .perfect, seed: UInt64,
        corrupt: @escaping (inout Message, inout SeededGenerator) -> Void
    ) {
        self.conditions = conditions
        generator = SeededGenerator(seed: seed)
        self.corrupt = corrupt
    }

    /// Puts a message on the link.
    public mutating func send(_ message: Message, at now: Int64) {
        let number = statistics.sent
        statistics.sent += 1
        if generator.chance(conditions.loss) {
            statistics.lost += 1
            return
        }
        schedule(message, number: number, at: now)
        if generator.chance(conditions.duplication) {
            statistics.duplicated += 1
            schedule(message, number: number, at: now)
        }
    }

    /// The time of the next message's arrival, or `nil` if none is in flight.
    public var nextDelivery: Int64? { inFlight.last?.arrival }

    /// The number of messages on their way.
    public var inFlightCount: Int { inFlight.count }

    /// Takes the messages that have arrived by `now`, in the order of their arrival.
    public mutating func deliver(upTo now: Int64) -> [Message] {
        var messages: [Message] = []
        while let copy = inFlight.last, copy.arrival <= now {
            inFlight.removeLast()
            statistics.delivered += 1
            if copy.number < highestDelivered { statistics.overtaken += 1 }
            highestDelivered = max(highestDelivered, copy.number)
            messages.append(copy.message)
        }
        return messages
    }

    /// Loses everything that is on its way, as when a network goes down.
    public mutating func dropAll() {
        statistics.lost += inFlight.count
        inFlight = []
    }

    private mutating func schedule(_ message: Message, number: Int, at now: Int64) {
        var message = message
        if generator.chance(conditions.corruption) {
            statistics.corrupted += 1
            corrupt(&message, &generator)
        }
        let (least, most) = (
            Int(conditions.delay.lowerBound.fakeClockNanoseconds), Int(conditions.delay.upperBound.fakeClockNanoseconds)
        )
        let arrival = now + Int64(generator.int(in: least...most))
        let copy = Copy(arrival: arrival, sequence: nextSequence, number: number, message: message)
        nextSequence += 1
        inFlight.insert(copy, at: position(before: copy))
    }

    /// The first position whose copy arrives before `copy`; among equals the newest comes first in the array.
    private func position(before copy: Copy) -> Int {
        var (low, high) = (0, inFlight.count)
        while low < high {
            let middle = (low + high) / 2
            if inFlight[middle].arrival > copy.arrival { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension LossyLink where Message == [UInt8] {
    /// A link of datagrams, whose behaviour follows from `seed`; damage flips one random bit.
    public init(_ conditions: LinkConditions = .perfect, seed: UInt64) {
        self.init(conditions, seed: seed) { bytes, generator in
            guard !bytes.isEmpty else { return }
            let bit = generator.int(in: 0..<bytes.count * 8)
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        }
    }
}
