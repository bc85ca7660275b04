// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(os)
    import Logging
    import os

    extension TrustEvaluator {
        /// An observer that writes what happened to the system's unified log: what ``logging(to:)`` logs, where `log stream`
        /// and Console show it.
        ///
        /// - Parameters:
        ///   - subsystem: the bundle identifier, or another name of that form, to find the messages by.
        ///   - category: the category that they are under.
        public static func unifiedLog(subsystem: String, category: String = "trust-pinning") -> Observer {
            let log = os.Logger(subsystem: subsystem, category: category)
            return { activity in
                for line in activity.logLines {
                    let fields = line.metadata.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
                    // Nothing in it is a secret: see `logging(to:)`.
                    log.log(level: line.level.unified, "\(line.text + fields, privacy: .public)")
                }
            }
        }
    }

    extension Logging.Logger.Level {
        /// How the unified log keeps it: notices and above for days, info and debug while somebody looks.
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
