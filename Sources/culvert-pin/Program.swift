// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport

@main
enum Program {
    static func main() async {
        ProgramStart.prepare()
        exit(await PinCommand.run(Array(CommandLine.arguments.dropFirst()), console: .standard))
    }
}
