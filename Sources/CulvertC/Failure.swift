// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import TunnelIO
import WireGuardDevice

/// The error of a failed call, for a `culvert_error`.
struct Failure: Error {
    let result: culvert_result
    let systemError: Int32
    let message: String

    init(_ result: Int, _ message: String, systemError: Int32 = 0) {
        self.result = culvert_result(result)
        self.systemError = systemError
        self.message = message
    }

    init(_ error: TunnelIOError) {
        let result =
            switch error.code {
            case .invalidDescriptor: CULVERT_INVALID_DESCRIPTOR
            case .closed, .deviceRemoved: CULVERT_ENDED
            case .interrupted: CULVERT_INTERRUPTED
            default: CULVERT_SYSTEM
            }
        self.init(result, error.description, systemError: error.errno)
    }

    init(_ error: WireGuardDeviceError) {
        let result =
            switch error.code {
            case .beyondBudget: CULVERT_INVALID_CONFIGURATION
            case .unresolved: CULVERT_NO_ADDRESS
            case .closed: CULVERT_ENDED
            default: CULVERT_SYSTEM
            }
        self.init(result, error.description, systemError: error.errno)
    }

    /// Writes it to where the caller wants it.
    @unsafe
    func report(_ out: UnsafeMutablePointer<culvert_error>?) -> culvert_result {
        guard let out = unsafe out else { return result }
        unsafe out.pointee.result = result
        unsafe out.pointee.system_error = systemError
        unsafe withUnsafeMutableBytes(of: &out.pointee.message) { unsafe FixedText.write(message, to: $0) }
        return result
    }
}

/// Text in a field of a structure.
enum FixedText {
    /// Writes as many whole characters as fit, followed by at least one zero.
    @unsafe
    static func write(_ text: String, to field: UnsafeMutableRawBufferPointer) {
        unsafe field.initializeMemory(as: UInt8.self, repeating: 0)
        var used = 0
        for character in text {
            let bytes = character == "\n" ? "; ".utf8 : String(character).utf8
            guard used + bytes.count < field.count else { return }
            for byte in bytes {
                unsafe field[used] = byte
                used += 1
            }
        }
    }
}
