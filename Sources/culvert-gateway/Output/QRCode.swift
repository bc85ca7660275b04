// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport

/// QR codes on a terminal, by Nayuki's QR-Code-generator, which is libqrcodegen1 in Debian. The library is loaded when
/// a code is drawn, so that other commands and the build do not need it.
enum QRCode {
    private static let library = "libqrcodegen.so.1"
    /// The largest number of bytes of a code: version 40 (`qrcodegen_BUFFER_LEN_MAX`).
    private static let bufferLength = 3918

    private typealias Encode =
        @convention(c) (
            UnsafePointer<CChar>, UnsafeMutablePointer<UInt8>, UnsafeMutablePointer<UInt8>, Int32, Int32, Int32, Int32,
            Bool
        ) -> Bool
    private typealias Size = @convention(c) (UnsafePointer<UInt8>) -> Int32
    private typealias Module = @convention(c) (UnsafePointer<UInt8>, Int32, Int32) -> Bool

    /// The lines of text that show the code of a text, with a margin. Each line contains two rows of the code, light on
    /// dark so that scanners read it.
    static func lines(_ text: String) throws(CommandFailure) -> [String] {
        let modules = try modules(text)
        let margin = 2
        func isDark(_ x: Int, _ y: Int) -> Bool {
            modules.indices.contains(y) && modules.indices.contains(x) && modules[y][x]
        }
        let range = -margin..<modules.count + margin
        return stride(from: range.lowerBound, to: range.upperBound, by: 2).map { y in
            range.map { x in
                switch (isDark(x, y), isDark(x, y + 1)) {
                case (true, true): " "
                case (false, true): "▀"
                case (true, false): "▄"
                case (false, false): "█"
                }
            }.joined()
        }
    }

    /// The modules of the code by row; `true` is dark.
    static func modules(_ text: String) throws(CommandFailure) -> [[Bool]] {
        guard let handle = unsafe dlopen(library, RTLD_NOW | RTLD_LOCAL) else {
            throw CommandFailure(
                "QR codes need \(library), which is not installed", fix: "apt-get install libqrcodegen1")
        }
        defer { unsafe _ = dlclose(handle) }
        guard let encode = unsafe dlsym(handle, "qrcodegen_encodeText"),
            let size = unsafe dlsym(handle, "qrcodegen_getSize"),
            let module = unsafe dlsym(handle, "qrcodegen_getModule")
        else { throw CommandFailure("\(library) does not have the expected functions") }
        let encodeText = unsafe unsafeBitCast(encode, to: Encode.self)
        let getSize = unsafe unsafeBitCast(size, to: Size.self)
        let getModule = unsafe unsafeBitCast(module, to: Module.self)
        var (scratch, code) = ([UInt8](repeating: 0, count: bufferLength), [UInt8](repeating: 0, count: bufferLength))
        defer {
            // Overwrite the buffers, because the text contains a key.
            for index in scratch.indices { (scratch[index], code[index]) = (0, 0) }
        }
        // The lowest error correction, versions 1 to 40, and the best mask.
        guard unsafe encodeText(text, &scratch, &code, 0, 1, 40, -1, true) else {
            throw CommandFailure("the text is too long for a QR code", status: ExitStatus.usage)
        }
        let count = unsafe getSize(code)
        return (0..<count).map { y in (0..<count).map { x in unsafe getModule(code, x, y) } }
    }
}
