// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport

/// QR codes on a terminal, by Nayuki's QR-Code-generator, which Debian has as libqrcodegen1. It is looked for when a code is
/// wanted, so that nobody else needs it, neither to build nor to run.
enum QRCode {
    private static let library = "libqrcodegen.so.1"
    /// The most bytes of a code: version 40 (`qrcodegen_BUFFER_LEN_MAX`).
    private static let bufferLength = 3918

    private typealias Encode =
        @convention(c) (
            UnsafePointer<CChar>, UnsafeMutablePointer<UInt8>, UnsafeMutablePointer<UInt8>, Int32, Int32, Int32, Int32,
            Bool
        ) -> Bool
    private typealias Size = @convention(c) (UnsafePointer<UInt8>) -> Int32
    private typealias Module = @convention(c) (UnsafePointer<UInt8>, Int32, Int32) -> Bool

    /// The lines of the code for a text: two rows of it to a line, light on dark as scanners want it, with a margin.
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

    /// Rows of what is dark.
    static func modules(_ text: String) throws(CommandFailure) -> [[Bool]] {
        guard let handle = unsafe dlopen(library, RTLD_NOW | RTLD_LOCAL) else {
            throw CommandFailure(
                "QR codes need \(library), which is not installed", fix: "apt-get install libqrcodegen1")
        }
        defer { unsafe _ = dlclose(handle) }
        guard let encode = unsafe dlsym(handle, "qrcodegen_encodeText"),
            let size = unsafe dlsym(handle, "qrcodegen_getSize"),
            let module = unsafe dlsym(handle, "qrcodegen_getModule")
        else { throw CommandFailure("\(library) is another library than was expected") }
        let encodeText = unsafe unsafeBitCast(encode, to: Encode.self)
        let getSize = unsafe unsafeBitCast(size, to: Size.self)
        let getModule = unsafe unsafeBitCast(module, to: Module.self)
        var (scratch, code) = ([UInt8](repeating: 0, count: bufferLength), [UInt8](repeating: 0, count: bufferLength))
        defer {
            // There is a key in it.
            for index in scratch.indices { (scratch[index], code[index]) = (0, 0) }
        }
        // The lowest error correction, versions 1 to 40, whichever mask is best.
        guard unsafe encodeText(text, &scratch, &code, 0, 1, 40, -1, true) else {
            throw CommandFailure("this is too long for a QR code", status: ExitStatus.usage)
        }
        let count = unsafe getSize(code)
        return (0..<count).map { y in (0..<count).map { x in unsafe getModule(code, x, y) } }
    }
}
