// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import WireGuardCore
import WireGuardDevice

#if os(Linux)
    import PacketTunnelLinux

    // README.md
    func serve(_ text: String) -> Never {
        TunnelProgram.run {  // Last in the file: it does not return. SIGINT and SIGTERM cancel its task.
            let configuration = try TunnelConfiguration.parse(text)
            let endpoints = try ResolvedEndpoints(of: configuration)  // Resolves host names with the system's resolver.

            let tun = try SystemTun(name: "wg0", mtu: 1420)
            let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
            try device.apply(configuration.deviceUpdate(resolve: endpoints.endpoint))
            try device.start()
            try device.serveUAPI(on: ManagementSocket(path: ManagementSocket.path(forInterface: "wg0")))
            try tun.setUp(true)
            await withTaskCancellationHandler {
                await withCheckedContinuation { ended in device.onClose { _ in ended.resume() } }
            } onCancel: {
                device.close()  // Ends its threads, and removes its socket's file.
            }
        }
    }
#endif

// ResolvedEndpoints
func resolve(_ configuration: TunnelConfiguration, for device: WireGuardDevice) throws {
    let endpoints = try ResolvedEndpoints(of: configuration)
    try device.apply(configuration.deviceUpdate(resolve: endpoints.endpoint))
}

// The article WireGuardCore
func makeKeys() -> (secret: String, name: String, same: PrivateKey?) {
    var random = SystemRandomNumberGenerator()
    let key = PrivateKey(using: &random)
    let secret = key.exportedBase64  // For a file that only its owner can read. A description never shows it.
    let name = key.publicKey.base64  // For the peers.
    let same = PrivateKey(base64: secret)  // nil if the text is not a key.
    return (secret, name, same)
}
