// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel

// RedactingLogHandler
func log(to path: String) throws {
    let file = try RingLogFile(path: path, ifInvalid: .recreate)
    LoggingSystem.bootstrap { label in RedactingLogHandler(label: label, origin: .extension, sinks: [file]) }
}

// LogRequest
func readLog(_ client: MessageClient, show: ([LogRecord]) -> Void) async throws {
    var request = LogRequest()
    while true {
        let page = try await client.send(request)
        show(page.records)
        request.after = page.position
        guard page.hasMore else { break }
    }
}

// LogSubscription
func followLog(_ client: MessageClient, show: ([LogRecord]) -> Void) async throws {
    for try await page in try await client.subscribe(to: LogSubscription()) { show(page.records) }
}
