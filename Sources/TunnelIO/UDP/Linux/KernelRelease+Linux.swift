// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    extension KernelRelease {
        /// The running kernel's release; `nil` if the kernel does not report it.
        package static let running: KernelRelease? = {
            var names = utsname()
            guard unsafe uname(&names) == 0 else { return nil }
            return unsafe withUnsafeBytes(of: &names.release) { bytes in
                unsafe KernelRelease(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self))
            }
        }()
    }
#endif
