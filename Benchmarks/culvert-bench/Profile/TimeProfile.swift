// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The processor time of a transfer, by place and kind of work.
struct TimeProfile {
    private var nanoseconds: [Place: [Work: Int]] = [:]

    init(_ samples: [PerfScript.Sample], _ roles: Roles) {
        for sample in samples {
            nanoseconds[roles.place(of: sample), default: [:]][Work(stack: sample.frames), default: 0] +=
                sample.nanoseconds
        }
    }

    /// Seconds of one kind of work at one place.
    func seconds(_ place: Place, _ work: Work) -> Double { Double(nanoseconds[place]?[work] ?? 0) / 1e9 }

    /// The seconds of all work at a place.
    func busy(_ place: Place) -> Double { Work.busy.reduce(0) { $0 + seconds(place, $1) } }

    /// The time per gigabyte: of the transfer by kind, then of each place.
    func figures(gigabytes: Double) -> [ProfileFigure] {
        var figures: [ProfileFigure] = []
        func add(_ part: String, _ name: String, _ seconds: Double) {
            figures.append(ProfileFigure(part, name, .secondsPerGigabyte, seconds / gigabytes))
        }
        let machine = ProfileFigure.machine
        // Other processes have no part in the transfer; a recorder is one of them.
        let places = Place.allCases.filter { $0 != .others }
        add(machine, ProfileFigure.total, places.reduce(0) { $0 + busy($1) })
        for work in Work.busy { add(machine, work.rawValue, places.reduce(0) { $0 + seconds($1, work) }) }
        let idle = Place.allCases.reduce(0) { $0 + seconds($1, .idle) }
        let all = Place.allCases.reduce(idle) { $0 + busy($1) }
        figures.append(ProfileFigure(machine, "idle", .percent, 100 * idle / all))
        figures.append(ProfileFigure(machine, "other processes", .percent, 100 * busy(.others) / all))
        for place in places {
            add(place.rawValue, ProfileFigure.total, busy(place))
            for work in Work.busy { add(place.rawValue, work.rawValue, seconds(place, work)) }
        }
        return figures
    }
}

/// A figure of one run of one contender.
struct ProfileFigure {
    /// The part of the machine, or another heading.
    var part: String
    var name: String
    var unit: Unit
    var value: Double

    static let machine = "Whole machine"
    static let total = "total"

    init(_ part: String, _ name: String, _ unit: Unit, _ value: Double) {
        (self.part, self.name, self.unit, self.value) = (part, name, unit, value)
    }

    /// The title of the figure in results.
    var title: String { part + Self.separator + name }

    /// Separates the part from the name in a title.
    static let separator = ": "
}
