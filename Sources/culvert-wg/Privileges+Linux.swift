// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// The privileges that the daemon drops after it has opened its descriptors.
    enum Privileges {
        /// Closes the descriptors that the background process has inherited from the caller, such as a shell's lock,
        /// which it must not keep.
        static func closeInherited(from first: Int32) {
            _ = ctunnel_close_from(UInt32(clamping: first))
        }

        /// Keeps the capabilities to mark sockets and size their buffers (`CAP_NET_ADMIN`), to bind low ports
        /// (`CAP_NET_BIND_SERVICE`), and to follow an interface into another namespace (`CAP_NET_BROADCAST`,
        /// `CAP_SYS_ADMIN`).
        ///
        /// Forbids core dumps and debuggers of the same user, because they would reveal keys.
        /// - Returns: Messages for the steps that failed. An ordinary user has no privileges to drop.
        static func reduce() -> [String] {
            let netBindService: UInt64 = 1 << 10
            let netBroadcast: UInt64 = 1 << 11
            let netAdmin: UInt64 = 1 << 12
            let sysAdmin: UInt64 = 1 << 21
            return failures(of: [
                (
                    "drop capabilities",
                    ctunnel_keep_capabilities(netBindService | netBroadcast | netAdmin | sysAdmin)
                ),
                ("forbid new privileges", ctunnel_forbid_new_privileges()),
                ("forbid core dumps and debuggers", ctunnel_forbid_dumps()),
            ])
        }

        /// Messages for the steps whose `errno` is not 0.
        static func failures(of steps: [(step: String, errno: Int32)]) -> [String] {
            steps.compactMap { $0.errno == 0 ? nil : "cannot \($0.step): \(SystemError.text($0.errno))" }
        }
    }
#endif
