// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)

    extension UAPIErrno {
        /// The error's number in Darwin's `errno.h`.
        public var number: Int32 {
            switch self {
            case .notPermitted: 1
            case .notFound: 2
            case .inputOutput: 5
            case .outOfMemory: 12
            case .noDevice: 19
            case .invalid: 22
            case .protocolError: 100
            case .addressInUse: 48
            case .addressNotAvailable: 49
            }
        }
    }

#endif
