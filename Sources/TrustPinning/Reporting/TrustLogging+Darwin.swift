// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(os)
    import Logging
    import os

    extension TrustEvaluator {
        /// Returns an observer that writes the messages of ``logging(to:)`` to the system's unified log, for `log
        /// stream` and Console.
        ///
        /// - Parameters:
        ///   - subsystem: The bundle identifier, or another name in that form, to find the messages.
        ///   - category: The category of the messages.
        public static func unifiedLog(subsystem: String, category: String = "trust-pinning") -> Observer {
            let log = os.Logger(subsystem: subsystem, category: category)
            return { activity in
                for line in activity.logLines {
                    let fields = line.metadata.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
                    // The messages contain no secrets: see `logging(to:)`.
                    log.log(level: line.level.unified, "\(line.text + fields, privacy: .public)")
                }
            }
        }
    }

    extension Logging.Logger.Level {
        /// The level in the unified log, which keeps notices and above for days, and info and debug only while they are
        /// streamed.
        fileprivate var unified: OSLogType {
            switch self {
            case .trace, .debug: .debug
            case .info: .info
            case .notice, .warning: .default
            case .error: .error
            case .critical: .fault
            }
        }
    }
#endif
