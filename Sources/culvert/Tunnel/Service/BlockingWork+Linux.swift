// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import PacketTunnel
    import TunnelIO
    import TunnelSystem

    /// Runs blocking work on a separate thread.
    enum BlockingWork {
        /// Runs `work`, which gets a descriptor that polls readable once the calling task is cancelled.
        /// - Throws: `.hostFailed` when there is no thread, or no descriptor.
        static func run<Value: Sendable>(
            _ name: String, _ work: @escaping @Sendable (_ cancellation: Int32) -> Value
        ) async throws(TunnelError) -> Value {
            let cancellation: DescriptorPipe
            do throws(SystemError) { cancellation = try DescriptorPipe() } catch {
                throw TunnelError(.hostFailed, "\(error)")
            }
            let result: Result<Value, TunnelError> = await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    do throws(TunnelIOError) {
                        _ = try LoopThread(name: name) {
                            continuation.resume(returning: .success(work(cancellation.reader.number)))
                        }
                    } catch {
                        continuation.resume(returning: .failure(TunnelError(.hostFailed, "\(error)")))
                    }
                }
            } onCancel: {
                cancellation.writer.close()
            }
            // Closed only now, since the thread waits on this descriptor.
            cancellation.reader.close()
            return try result.get()
        }
    }
#endif
