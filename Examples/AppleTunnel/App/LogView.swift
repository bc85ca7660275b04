// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import SwiftUI

/// The log of app and extensions, as it is written.
struct LogView: View {
    @Bindable var model: LogModel

    var body: some View {
        NavigationStack {
            List {
                if let notice = model.notice {
                    Text(notice).foregroundStyle(.secondary)
                }
                ForEach(model.lines, id: \.sequence) { record in
                    Text(record.description)
                        .font(.caption.monospaced())
                        .foregroundStyle(record.level >= .error ? Color.red : Color.primary)
                }
            }
            .searchable(text: $model.search)
            .navigationTitle("Log")
            .toolbar {
                Picker("Level", selection: $model.minimumLevel) {
                    ForEach(Logger.Level.allCases, id: \.self) { level in
                        Text(level.rawValue).tag(level)
                    }
                }
                ShareLink(item: model.text)
                Button("Clear", systemImage: "trash") { model.clear() }
            }
            .task { await model.follow() }
        }
    }
}
