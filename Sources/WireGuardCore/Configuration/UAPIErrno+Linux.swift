// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)

    extension UAPIErrno {
        /// The error's number in Linux's `errno.h`.
        public var number: Int32 {
            switch self {
            case .notPermitted: 1
            case .notFound: 2
            case .inputOutput: 5
            case .outOfMemory: 12
            case .noDevice: 19
            case .invalid: 22
            case .protocolError: 71
            case .addressInUse: 98
            case .addressNotAvailable: 99
            }
        }
    }

#endif
