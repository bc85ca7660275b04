// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import SwiftUI
import TrustPinningFoundation

/// The reply of a pinned server, or the reason that it is not trusted.
struct GreetingView: View {
    let client: PinnedSession
    let url: URL
    @State private var text = "…"

    var body: some View {
        Text(text).task {
            do {
                let (data, _) = try await client.data(from: url)
                text = String(decoding: data, as: UTF8.self)
            } catch {
                text = "\(error)"  // Contains the server's key if no pin matches.
            }
        }
    }
}
