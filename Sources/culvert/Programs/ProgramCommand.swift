// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// A subcommand that is a separate program, since it links libraries that the others do not need: `culvert NAME` runs
/// `culvert-NAME`. This type only puts it into the list of commands.
protocol ProgramCommand: ParsableCommand {}

struct PinCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Show, check and rehearse TLS pins; sign policies.")
}

struct GatewayCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "gateway", abstract: "Run a gateway for a team: WireGuard, users, devices, an HTTPS API.")
}

struct EnrollCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "enroll", abstract: "Enrol this machine as a device of a gateway with an invitation.")
}

extension ProgramCommand {
    static var program: String { "culvert-\(_commandName)" }
}

/// The shell's completion script. Separate programs complete their own command lines.
enum CompletionScript {
    private static let option = "--generate-completion-script"

    /// The requested script; `nil` if none was requested, or for an unknown shell.
    static func requested(by arguments: [String]) -> String? {
        guard let first = arguments.first, arguments.count <= 2 else { return nil }
        let shell: CompletionShell?
        if first == option {
            shell = arguments.count == 1 ? .autodetected() : CompletionShell(rawValue: arguments[1])
        } else if first.hasPrefix(option + "="), arguments.count == 1 {
            shell = CompletionShell(rawValue: String(first.dropFirst(option.count + 1)))
        } else {
            return nil
        }
        return shell.map(text)
    }

    private static func text(_ shell: CompletionShell) -> String {
        var script = Culvert.completionScript(for: shell)
        for command in Culvert.configuration.subcommands {
            guard let command = command as? any ProgramCommand.Type else { continue }
            let name = command._commandName
            if shell == .fish {
                script += "\n" + fish(name, command.program)
            } else {
                // Into the function that completes the command's arguments, which this program does not know.
                let start = "_culvert_\(name)() {\n"
                let body = shell == .zsh ? zsh(name, command.program) : bash(name, command.program)
                guard let range = script.firstRange(of: start) else { continue }
                script.replaceSubrange(range, with: start + body + "\n")
            }
        }
        return script
    }

    private static func bash(_ name: String, _ program: String) -> String {
        """
            declare -F _\(program) >/dev/null || eval "$("${COMP_WORDS[0]}" \(name) \(option) bash 2>/dev/null)"
            declare -F _\(program) >/dev/null || return 0
            local -a COMP_WORDS=(\(program) "${COMP_WORDS[@]:2}")
            local -i COMP_CWORD=$((COMP_CWORD - 1))
            _\(program) \(program) "${cur}" "${prev}"
            return
        """
    }

    private static func zsh(_ name: String, _ program: String) -> String {
        """
            (( ${+functions[_\(program)]} )) || eval "$("${command_name}" \(name) \(option) zsh 2>/dev/null)"
            (( ${+functions[_\(program)]} )) || return 1
            words[1]=\(program)
            _\(program)
            return
        """
    }

    private static func fish(_ name: String, _ program: String) -> String {
        let start = #""^\s*\S+\s+\#(name)(?=\s)""#
        return "complete -c culvert -n 'string match -qr \(start) -- (commandline -cp)' "
            + "-fa '(complete -C (string replace -r \(start) \(program) -- (commandline -cp)))'"
    }
}
