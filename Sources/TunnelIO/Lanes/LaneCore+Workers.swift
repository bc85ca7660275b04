// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Batches that workers seal and open.
///
/// A lane continues to read while up to ``BatchPipeline/depth`` batches are in progress, and sends them in order. All are
/// finished before its turn ends: none is in progress while the lane sleeps or changes its sockets.
extension LaneCore {
    /// Both directions of a lane with workers.
    struct Pipelines {
        let outbound: BatchPipeline?
        let inbound: BatchPipeline?
    }

    /// The pipelines for a lane with this role; `nil` if the transport has no steps.
    static func pipelines(
        _ workers: BatchWorkers, for role: LaneRole, _ transport: any TunnelTransport,
        _ configuration: LaneConfiguration
    ) throws(TunnelIOError) -> Pipelines? {
        guard transport.makeSteps() != nil else { return nil }
        var outbound: BatchPipeline?
        var inbound: BatchPipeline?
        if role.contains(.outbound) {
            outbound = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in
                try slot(transport, configuration, isOutbound: true)
            }
        }
        if role.contains(.inbound) {
            inbound = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in
                try slot(transport, configuration, isOutbound: false)
            }
        }
        return Pipelines(outbound: outbound, inbound: inbound)
    }

    private static func slot(
        _ transport: any TunnelTransport, _ configuration: LaneConfiguration, isOutbound: Bool
    ) throws(TunnelIOError) -> BatchSlot {
        guard let steps = transport.makeSteps() else {
            throw TunnelIOError(.unsupported("a transport that has steps for some batches only"))
        }
        guard isOutbound else {
            let source = try PacketBatch(
                packetCapacity: configuration.datagramCount, byteCapacity: configuration.incomingBytes)
            return BatchSlot(source: source, sealed: nil, steps: steps)
        }
        let source = try PacketBatch(
            packetCapacity: configuration.packetCount, byteCapacity: configuration.packetBytes)
        let sealed = try PacketBatch(
            packetCapacity: configuration.packetCount, byteCapacity: configuration.outgoingBytes)
        return BatchSlot(source: source, sealed: sealed, steps: steps)
    }

    /// As ``moveFromDevice()``, with workers.
    func moveFromDevice(through pipeline: BatchPipeline) throws(TunnelIOError) -> Int {
        // In any case, batches that were started are sent.
        defer { passOnFinished(pipeline, waits: true) }
        var moved = 0
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            if pipeline.isFull { passOnOldest(pipeline, waits: true) }
            let slot = pipeline.next
            slot.reset()
            let count = try device.receive(into: slot.source)
            guard count > 0 else { break }
            moved += count
            noteFromDevice(slot.source, count)
            let hasMore = mayHaveMore(slot.source)
            slot.steps.planSeal(slot.source)
            pipeline.submit(isLast: !hasMore)
            passOnFinished(pipeline, waits: false)
            if !hasMore { break }
        }
        return moved
    }

    /// As ``moveFromNetwork(_:)``, with workers.
    func moveFromNetwork(_ socket: any DatagramSocket, through pipeline: BatchPipeline) throws(TunnelIOError) -> Int {
        defer { passOnFinished(pipeline, waits: true) }
        var moved = 0
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            if pipeline.isFull { passOnOldest(pipeline, waits: true) }
            let slot = pipeline.next
            slot.reset()
            let count = try socket.receive(into: slot.source)
            guard count > 0 else { break }
            moved += count
            noteFromNetwork(slot.source, count)
            let isLast = count < configuration.fewDatagrams || moved >= configuration.datagramsPerTurn
            slot.steps.planOpen(slot.source, answer: answer)
            pipeline.submit(isLast: isLast)
            passOnFinished(pipeline, waits: false)
            if isLast { break }
        }
        return moved
    }

    private func passOnFinished(_ pipeline: BatchPipeline, waits: Bool) {
        while passOnOldest(pipeline, waits: waits) {}
    }

    /// Sends sealed packets, or delivers opened ones.
    @discardableResult
    private func passOnOldest(_ pipeline: BatchPipeline, waits: Bool) -> Bool {
        guard let slot = pipeline.oldest(waits: waits) else { return false }
        if let sealed = slot.sealed {
            send(sealed)
        } else {
            slot.steps.commitOpen(slot.source)
            deliver(slot.source)
        }
        publish()
        pipeline.removeOldest()
        return true
    }
}
