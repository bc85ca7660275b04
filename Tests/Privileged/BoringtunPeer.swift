// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import WireGuardCore

    /// A culvert-wg, and mitmproxy in a neighbouring namespace. mitmproxy contains boringtun with a TCP/IP stack, and
    /// forwards HTTP to a server. There is no session yet.
    ///
    /// `dev/machine boringtun` installs mitmproxy into the folder that `CULVERT_BORINGTUN_PEER` names.
    final class BoringtunPeer {
        /// The folder of mitmproxy, or `nil` if it is not installed.
        static let folder: String? = {
            let path = ProcessInfo.processInfo.environment["CULVERT_BORINGTUN_PEER"] ?? ""
            return path.isEmpty ? nil : path
        }()

        /// The number of bytes that the server sends and receives.
        static let bodyByteCount = 8 << 20

        let namespace: Namespace
        let peerNamespace: Namespace
        let daemon: DaemonProcess
        let keys = StaticKeys()
        let peerKeys = StaticKeys()
        private let files: TemporaryFolder
        private let server: SpawnedProcess
        private var mitmproxy: SpawnedProcess

        init() throws {
            files = try TemporaryFolder()
            (namespace, peerNamespace) = (try Namespace(), try Namespace())
            try namespace.run("ip", "link", "add", "veth", "type", "veth", "peer", "veth", "netns", peerNamespace.name)
            for (end, address) in [(namespace, "10.9.0.1/24"), (peerNamespace, "10.9.0.2/24")] {
                try end.run("ip", "address", "add", address, "dev", "veth")
                try end.run("ip", "link", "set", "veth", "up")
            }
            // The server's address, which can be reached only through the tunnel.
            try peerNamespace.run("ip", "address", "add", "10.77.0.1/32", "dev", "lo")
            _ = try files.write(
                #"{"server_key": "\#(peerKeys.text)", "client_key": "\#(keys.text)"}"#, to: "keys.json")
            try namespace.run("sh", "-c", "head -c \(Self.bodyByteCount) /dev/urandom > \(files.path)/body")
            let script = try files.write(Self.serverScript, to: "server.py")
            server = try peerNamespace.start("python3", "-u", script, "\(files.path)/body")
            try server.waitForOutput(containing: "ready")
            mitmproxy = try Self.start(in: peerNamespace, files)
            daemon = try DaemonProcess(.culvert, in: namespace)
            try configure(keys, peerKeys.publicKey)
            try namespace.run("ip", "address", "add", "10.0.0.1/32", "dev", daemon.name)
            try namespace.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            try namespace.run("ip", "route", "add", "10.77.0.0/24", "dev", daemon.name)
        }

        private static func start(in namespace: Namespace, _ files: TemporaryFolder) throws -> SpawnedProcess {
            let folder = folder ?? ""
            let process = try namespace.start(
                "env", "HOME=\(files.path)", "PYTHONUNBUFFERED=1", "\(folder)/bin/mitmdump",
                "--set", "confdir=\(files.path)/mitmproxy", "--mode", "wireguard:\(files.path)/keys.json@2000")
            try process.waitForOutput(containing: "WireGuard server listening", deadline: .seconds(120))
            return process
        }

        /// Sets the daemon's and its peer's keys, which creates no session.
        func configure(_ own: StaticKeys, _ other: PublicKey) throws {
            try Wg.configure(
                daemon.name,
                """
                [Interface]
                PrivateKey = \(own.text)
                [Peer]
                PublicKey = \(other.base64)
                AllowedIPs = 10.77.0.0/24
                Endpoint = 10.9.0.2:2000

                """)
        }

        /// Restarts boringtun's process with the same keys.
        func restart() throws {
            mitmproxy.kill()
            mitmproxy = try Self.start(in: peerNamespace, files)
        }

        /// The daemon's state of boringtun as a peer.
        func peer() throws -> WgDump.Peer { try Wg.peer(peerKeys.publicKey, of: daemon.name) }

        /// The output of mitmproxy.
        var log: String { mitmproxy.outputSoFar }

        /// Pings the server's address. boringtun's side itself answers; every echo must return once and unchanged.
        /// - Parameter options: Options of ping(8).
        func ping(_ options: String, deadline: Duration = .seconds(60)) throws {
            let result = try namespace.runAllowingFailure(
                "sh", "-c", "exec ping -n -q \(options) 10.77.0.1", deadline: deadline)
            try KernelPeerPair.expectWhole(result)
        }

        /// Downloads the server's body through the tunnel, and uploads one of the same size. Every byte must arrive
        /// unchanged.
        func exchange(deadline: Duration = .seconds(120)) throws {
            let script = try files.write(Self.clientScript, to: "client.py")
            try namespace.run("python3", script, "\(files.path)/body", deadline: deadline)
        }

        private static let serverScript = """
            import http.server, sys
            body = open(sys.argv[1], 'rb').read()
            class Handler(http.server.BaseHTTPRequestHandler):
                def answer(self, data):
                    self.send_response(200)
                    self.send_header('Content-Length', str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                def do_GET(self):
                    self.answer(body)
                def do_POST(self):
                    self.answer(self.rfile.read(int(self.headers['Content-Length'])))
            server = http.server.ThreadingHTTPServer(('10.77.0.1', 8000), Handler)
            print('ready')
            server.serve_forever()
            """

        private static let clientScript = """
            import sys, urllib.request
            body = open(sys.argv[1], 'rb').read()
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            got = direct.open('http://10.77.0.1:8000/body', timeout=60).read()
            assert got == body, f'got {len(got)} bytes of {len(body)}'
            back = direct.open('http://10.77.0.1:8000/echo', data=body[::-1], timeout=60).read()
            assert back == body[::-1], f'{len(back)} bytes of {len(body)} came back'
            """
    }
#endif
