// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel

// RingLogHandler
func log(to path: String) throws {
    let file = try RingLogFile(path: path, ifInvalid: .recreate)
    LoggingSystem.bootstrap { label in RingLogHandler(label: label, file: file, origin: .extension) }
}
