// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import PacketTunnel
import PacketTunnelApple
import Testing
import os

@Suite("The unified log")
struct UnifiedLogTests {
    @Test("The unified log has levels and categories, shows messages, and never a key")
    func writes() {
        let subsystem = "test.\(UUID().uuidString)"
        var logger = Logging.Logger(label: "tunnel") { label in
            RedactingLogHandler(label: label, sinks: [UnifiedLogSink(subsystem: subsystem, category: label)])
        }
        logger.logLevel = .debug
        logger[metadataKey: "peer"] = "4"
        logger.debug("one\ntwo")
        logger.info("info")
        logger.warning("warning")
        logger.error("private_key=yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=")
        logger.critical("fault")
        logger.trace("not written")
        let entries = StandInLog.entries(of: subsystem)
        #expect(entries.map(\.type) == [.debug, .info, .default, .error, .fault])
        #expect(entries.allSatisfy { $0.category == "tunnel" && $0.text.hasSuffix("peer=4") })
        #expect(entries.allSatisfy { !$0.text.contains("<private>") && !$0.text.contains("yAnz5TF") })
    }
}
