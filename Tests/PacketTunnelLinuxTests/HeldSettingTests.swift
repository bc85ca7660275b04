// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

@testable import PacketTunnelLinux

@Suite("A kernel setting that stays open")
struct HeldSettingTests {
    @Test("The setting is read and written any number of times without its path, so without a new descriptor")
    func held() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "held-\(UUID().uuidString)")
        try Data("0\n".utf8).write(to: file)
        let setting = try HeldSetting(file.path)
        try FileManager.default.removeItem(at: file)
        #expect(try SmallFile.text(file.path) == nil)
        for value in ["1", "0", "1"] {
            try setting.overwrite(with: value)
            for _ in 1...2 { #expect(try setting.text() == value) }
        }
        #expect(throws: LinuxNetworkError.self) { _ = try HeldSetting(file.path) }
    }
}
