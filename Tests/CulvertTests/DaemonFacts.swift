// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting

@testable import culvert_wg

/// The facts of culvert-wg: its arguments, its environment variables and its exit statuses.
enum DaemonFacts {
    static var all: [ContractFact] {
        let program = "culvert-wg"
        var facts = [
            ContractFact(program, ContractFact.command), ContractFact("\(program) argument 1", "argument, required"),
        ]
        for flag in DaemonOptions.Flag.allCases {
            let names = flag.names.map { "\(program) \($0)" }
            facts += names.map { ContractFact($0, $0 == names.last ? "flag" : "same as \(flag.names.last ?? "")") }
        }
        facts.append(ContractFact("\(program) \(DaemonOptions.aeadOption)", "option"))
        facts += DaemonOptions.Variable.allCases.map {
            ContractFact("\(program) environment \($0.rawValue)", "variable")
        }
        facts += DaemonOptions.Status.allCases.map { ContractFact("\(program) exit status \($0.rawValue)", "\($0)") }
        return facts
    }
}
