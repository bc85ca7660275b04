// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    /// The executor that runs the tasks of this process.
    package enum DefaultExecutor {
        /// Makes this package's threads run the tasks, so that they do not wake an idle process. Call it before the first
        /// task.
        ///
        /// Swift 6.3 has the interface for this only as SPI. With another compiler, libdispatch continues to run the tasks.
        package static func replace() { install() }
    }

    #if compiler(>=6.3) && compiler(<6.4)
        @_spi(ExperimentalCustomExecutors) import _Concurrency

        extension DefaultExecutor {
            private enum Factory: ExecutorFactory {
                static let threads = TaskThreads()

                static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
                static var defaultExecutor: any TaskExecutor { threads }
            }

            private static func install() { _createExecutors(factory: Factory.self) }
        }
    #else
        extension DefaultExecutor {
            private static func install() {}
        }
    #endif
#endif
