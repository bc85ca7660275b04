// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// What the daemon gives up once its descriptors are open.
    enum Privileges {
        /// Closes what a caller left open in the background process: a lock that a shell holds must not be held on.
        static func closeInherited(from first: Int32) {
            _ = ctunnel_close_from(UInt32(clamping: first))
        }

        /// Keeps what is needed to mark sockets and size their buffers (`CAP_NET_ADMIN`), to bind low ports
        /// (`CAP_NET_BIND_SERVICE`), and to follow an interface into another namespace (`CAP_NET_BROADCAST`,
        /// `CAP_SYS_ADMIN`).
        ///
        /// Core dumps and debuggers of the same user are shut out, since they would show keys.
        /// - Returns: what could not be done, for people. As an ordinary user there is nothing to give up.
        static func reduce() -> [String] {
            let netBindService: UInt64 = 1 << 10
            let netBroadcast: UInt64 = 1 << 11
            let netAdmin: UInt64 = 1 << 12
            let sysAdmin: UInt64 = 1 << 21
            return failures(of: [
                (
                    "give up capabilities",
                    ctunnel_keep_capabilities(netBindService | netBroadcast | netAdmin | sysAdmin)
                ),
                ("forbid new privileges", ctunnel_forbid_new_privileges()),
                ("forbid core dumps and debuggers", ctunnel_forbid_dumps()),
            ])
        }

        /// What to say of steps, by the error number of each; zero for none.
        static func failures(of steps: [(step: String, errno: Int32)]) -> [String] {
            steps.compactMap { $0.errno == 0 ? nil : "cannot \($0.step): \(SystemError.text($0.errno))" }
        }
    }
#endif
