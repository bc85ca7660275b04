// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// Adds a profile from the text of a wg-quick file.
struct ImportView: View {
    let model: TunnelModel
    @Environment(\.dismiss) private var dismiss
    @State private var name = ""
    @State private var text = ""

    var body: some View {
        NavigationStack {
            Form {
                TextField("Name", text: $name)
                TextField("Configuration", text: $text, axis: .vertical)
                    .font(.body.monospaced())
                    .lineLimit(8...)
            }
            .navigationTitle("Add a tunnel")
            .toolbar {
                Button("Cancel") { dismiss() }
                if model.isInstalling { ProgressView() }
                Button("Install") {
                    Task {
                        if await model.add(wgQuick: text, name: name) { dismiss() }
                    }
                }
                .disabled(name.isEmpty || text.isEmpty || model.isInstalling)
            }
        }
    }
}
