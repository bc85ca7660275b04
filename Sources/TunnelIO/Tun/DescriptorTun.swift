// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A device whose packets any program can read and write through a descriptor.
package protocol DescriptorTun: TunDevice {
    /// Whether it is the descriptor of a system's interface, with the system's headers, rather than a socket whose
    /// messages are packets.
    var isInterface: Bool { get }

    /// A duplicate of the descriptor, closed on exec, which the caller closes.
    /// - Throws: `.closed`; `.invalidDescriptor` with `errno` `EMFILE` if the process has no descriptors left.
    func copyDescriptor() throws(TunnelIOError) -> Int32
}
