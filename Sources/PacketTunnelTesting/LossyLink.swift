// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The treatment of messages by a ``LossyLink``. Probabilities are from 0 to 1.
public struct LinkConditions: Sendable {
    /// The probability that a message is lost.
    public var loss: Double
    /// The probability that a message arrives twice.
    public var duplication: Double
    /// The probability that a copy of a message is damaged.
    public var corruption: Double
    /// The delay of a copy. Each delay in the range is equally likely. If the range is wide, messages overtake each
    /// other.
    public var delay: ClosedRange<Duration>

    /// Creates conditions; by default, those of a perfect link.
    public init(
        loss: Double = 0, duplication: Double = 0, corruption: Double = 0,
        delay: ClosedRange<Duration> = .zero ... .zero
    ) {
        self.loss = loss
        self.duplication = duplication
        self.corruption = corruption
        self.delay = delay
    }

    /// The conditions of a link that neither loses, duplicates, damages, reorders nor delays messages.
    public static let perfect = LinkConditions()
}

/// The statistics of a ``LossyLink``.
public struct LinkStatistics: Hashable, Sendable {
    /// The messages that were passed to the link.
    public var sent = 0
    /// Messages that were dropped.
    public var lost = 0
    /// The messages of which two copies were sent.
    public var duplicated = 0
    /// Copies that were damaged.
    public var corrupted = 0
    /// The copies that were delivered after a copy of a later message.
    public var overtaken = 0
    /// The copies that were delivered.
    public var delivered = 0

    /// Creates statistics that are all zero.
    public init() {}
}

/// One direction of a lossy network in memory, in virtual time. The seed determines the loss, duplication, damage and
/// delay of each message.
///
/// Times are nanoseconds on the caller's clock, like ``FakeClock/nanoseconds``.
public struct LossyLink<Message> {
    private struct Copy {
        var arrival: Int64
        /// The order of copies with equal arrival, so that equal delays keep the order of sending.
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
    /// The copies in flight, the next one to arrive last.
    private var inFlight: [Copy] = []
    private var nextSequence = 0
    private var highestDelivered = -1

    /// Creates a link whose behaviour is determined by `seed`. It damages messages with `corrupt`.
    public init(
        _ conditions: LinkConditions = .perfect, seed: UInt64,
        corrupt: @escaping (inout Message, inout SeededGenerator) -> Void
    ) {
        self.conditions = conditions
        generator = SeededGenerator(seed: seed)
        self.corrupt = corrupt
    }

    /// Sends a message over the link.
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

    /// The number of copies in flight.
    public var inFlightCount: Int { inFlight.count }

    /// Removes and returns the messages that have arrived by `now`, in the order of their arrival.
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

    /// Loses all copies in flight, like a network that fails.
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

    /// The index at which to insert `copy`. Of copies with equal arrival, the newest is first in the array.
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
    /// Creates a link for datagrams whose behaviour is determined by `seed`. Damage flips one random bit.
    public init(_ conditions: LinkConditions = .perfect, seed: UInt64) {
        self.init(conditions, seed: seed) { bytes, generator in
            guard !bytes.isEmpty else { return }
            let bit = generator.int(in: 0..<bytes.count * 8)
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        }
    }
}
