// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// A request that is sent only to a server with one of the pinned keys.
struct PinnedView: View {
    @Bindable var model: PinnedModel

    var body: some View {
        NavigationStack {
            Form {
                Section("Server") {
                    TextField("Address", text: $model.address)
                    TextField("Pins, one a line", text: $model.pins, axis: .vertical)
                        .font(.body.monospaced())
                        .lineLimit(2...)
                }
                Button("Send") { Task { await model.send() } }
                    .disabled(model.isBusy || model.pins.isEmpty)
                if model.isBusy { ProgressView() }
                if let outcome = model.outcome {
                    Text(outcome.text).foregroundStyle(outcome.isTrusted ? Color.primary : Color.red)
                }
            }
            .navigationTitle("Pinned request")
        }
    }
}
