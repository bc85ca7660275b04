// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A folder that is deleted with its files when this object is released.
final class ScratchDirectory {
    struct Failure: Error {
        let code: Int32
    }

    let path: String

    init() throws {
        var template = Array(("/tmp/culvert-test." + String(repeating: "X", count: 6)).utf8CString)
        let made = unsafe template.withUnsafeMutableBufferPointer { buffer in
            guard let start = buffer.baseAddress else { return false }
            return unsafe mkdtemp(start) != nil
        }
        guard made else { throw Failure(code: errno) }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    deinit {
        // One level is all that the tests make.
        for name in names { unsafe _ = unlink(file(name)) == 0 || rmdir(file(name)) == 0 }
        unsafe _ = rmdir(path)
    }

    /// The names of its files.
    var names: [String] {
        guard let folder = unsafe opendir(path) else { return [] }
        defer { unsafe _ = closedir(folder) }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    func read(_ name: String) throws -> [UInt8] {
        let descriptor = unsafe open(file(name), O_RDONLY)
        guard descriptor >= 0 else { throw Failure(code: errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe Self.read(descriptor, $0) }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }

    /// Changes a file from `offset` on, in place.
    func write(_ bytes: [UInt8], to name: String, at offset: Int = 0) throws {
        let descriptor = unsafe open(file(name), O_WRONLY | O_CREAT, 0o600)
        guard descriptor >= 0 else { throw Failure(code: errno) }
        defer { close(descriptor) }
        let count = unsafe bytes.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
        guard count == bytes.count else { throw Failure(code: errno) }
    }

    func mode(_ name: String) throws -> UInt32 {
        var status = stat()
        guard unsafe lstat(file(name), &status) == 0 else { throw Failure(code: errno) }
        return UInt32(status.st_mode & 0o7777)
    }

    private static func read(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        unsafe systemRead(descriptor, buffer.baseAddress, buffer.count)
    }
}

private func systemRead(_ descriptor: Int32, _ start: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    unsafe read(descriptor, start, count)
}
