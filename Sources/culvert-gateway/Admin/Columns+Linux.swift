// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Gateway
    import Provisioning

    /// The columns of lists: a title and a member of the API's JSON each.
    enum Columns {
        static var users: [(title: String, member: String)] { User.message.columns(first: "login") }
        static var devices: [(title: String, member: String)] { Device.message.columns(first: "name") }
        static var rules: [(title: String, member: String)] { Rule.message.columns() }
    }
#endif
