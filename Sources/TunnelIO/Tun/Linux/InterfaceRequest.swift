// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// The argument of interface ioctls: 16 bytes of name, then a union of which flags (16 bits) and numbers (32 bits) are used.
    @safe
    struct InterfaceRequest {
        /// As long as `struct ifreq` on 64-bit systems, which is longer than on 32-bit ones.
        private var words: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)

        /// A request for the interface of this name, which was validated.
        init(name: String = "") {
            unsafe withUnsafeMutableBytes(of: &words) { storage in
                for (index, byte) in name.utf8.prefix(15).enumerated() { unsafe storage[index] = byte }
            }
        }

        /// The name in the request.
        var name: String {
            unsafe withUnsafeBytes(of: words) { storage in
                unsafe String(decoding: storage.prefix(16).prefix { $0 != 0 }, as: UTF8.self)
            }
        }

        /// The union as flags.
        var flags: UInt16 {
            get { unsafe withUnsafeBytes(of: words) { unsafe $0.load(fromByteOffset: 16, as: UInt16.self) } }
            set {
                unsafe withUnsafeMutableBytes(of: &words) {
                    unsafe $0.storeBytes(of: newValue, toByteOffset: 16, as: UInt16.self)
                }
            }
        }

        /// The union as a number: an MTU or an interface index.
        var number: Int32 {
            get { unsafe withUnsafeBytes(of: words) { unsafe $0.load(fromByteOffset: 16, as: Int32.self) } }
            set {
                unsafe withUnsafeMutableBytes(of: &words) {
                    unsafe $0.storeBytes(of: newValue, toByteOffset: 16, as: Int32.self)
                }
            }
        }

        /// Makes the call.
        /// - Returns: negative when it failed, with the reason in `errno`.
        mutating func perform(_ request: UInt, on descriptor: Int32) -> Int32 {
            unsafe withUnsafeMutableBytes(of: &words) { storage in
                SystemCall.retry { unsafe ctunnel_tun_ioctl_pointer(descriptor, request, storage.baseAddress) }
            }
        }
    }
#endif
