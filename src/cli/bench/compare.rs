//! `hermitmq bench compare`: what a broker reaches of what the machine can do, or of what it does with less to do.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::failure::Failure;

use super::args::CompareArgs;
use super::progress::Progress;
use super::report::{self, Table};
use super::rounds::{self, Round};
use super::stats::median;
use super::workload::{Unit, WORKLOADS, Workload};

#[derive(Debug, Serialize)]
struct Comparison {
    workload: &'static str,
    rounds: u32,
    mb_per_round: u32,
    workloads: Vec<Compared>,
}

/// The medians of a workload's rounds.
#[derive(Debug, Serialize)]
struct Compared {
    name: &'static str,
    /// Of the values below.
    unit: &'static str,
    broker_is: &'static str,
    other_is: &'static str,
    broker: f64,
    other: f64,
    #[serde(flatten)]
    ratio: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    crowded: Option<Crowded>,
    #[serde(skip)]
    shown_in: Unit,
}

/// What the rounds' ratios come to.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

/// The broker with silent connections open; the ratios are to what it does without them.
#[derive(Debug, Serialize)]
struct Crowded {
    idle: u32,
    parked: u32,
    broker: f64,
    #[serde(flatten)]
    kept: Spread,
}

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let chosen = chosen(args)?;
    let steps = chosen.len() as u64 * (u64::from(args.rounds) + 1);
    let progress = Progress::steps("compare", steps);
    let mut workloads = Vec::new();
    for workload in &chosen {
        progress.say(workload.name);
        let rounds = rounds::run(workload, args, &progress)?;
        workloads.push(compared(workload, &rounds, args));
    }
    drop(progress);
    let result =
        Comparison { workload: "compare", rounds: args.rounds, mb_per_round: args.mb, workloads };
    report::print(args.output, &result, &table(&result))?;
    let missed = missed(&result.workloads, &args.min_ratio, args.min_kept);
    if missed.is_empty() { Ok(()) } else { Err(Failure::Runtime(missed.trim_end().to_owned())) }
}

/// The workloads that are asked for. A name that means none of them is a mistake.
fn chosen(args: &CompareArgs) -> Result<Vec<Workload>, Failure> {
    let wanted = |workload: &Workload| match args.only.as_slice() {
        [] => !workload.needs_disk(),
        names => names.iter().any(|name| workload.name.starts_with(name)),
    };
    let chosen: Vec<_> = WORKLOADS.into_iter().filter(wanted).collect();
    let known = |name: &str, among: &[Workload]| among.iter().any(|w| w.name.starts_with(name));
    if let Some(name) = args.only.iter().find(|name| !known(name, &WORKLOADS)) {
        return Err(Failure::Usage(format!(
            "--only {name}: no workload has such a name; see `hermitmq bench compare --help`"
        )));
    }
    if let Some((name, _)) = args.min_ratio.iter().find(|(name, _)| !known(name, &chosen)) {
        return Err(Failure::Usage(format!(
            "--min-ratio {name}: none of the workloads that run has such a name"
        )));
    }
    if args.min_kept.is_some() && args.silent.is_empty() {
        return Err(Failure::Usage("--min-kept: needs --idle or --parked connections".to_owned()));
    }
    Ok(chosen)
}

fn compared(workload: &Workload, rounds: &[Round], args: &CompareArgs) -> Compared {
    let unit = workload.unit();
    let of = |side: fn(&Round) -> f64| median(&rounds.iter().map(side).collect::<Vec<_>>());
    let ratios = rounds.iter().map(|round| unit.ratio(round.broker, round.other));
    let crowded: Vec<_> = rounds.iter().filter_map(|r| Some((r.crowded?, r.broker))).collect();
    let (broker_is, other_is) = workload.sides();
    Compared {
        name: workload.name,
        unit: unit.name(),
        broker_is,
        other_is,
        broker: of(|round| round.broker),
        other: of(|round| round.other),
        ratio: Spread::of(&ratios.collect::<Vec<_>>()),
        crowded: (!crowded.is_empty()).then(|| Crowded {
            idle: args.silent.idle,
            parked: args.silent.parked,
            broker: of(|round| round.crowded.unwrap_or_default()),
            kept: Spread::of(
                &crowded
                    .iter()
                    .map(|&(with, without)| unit.ratio(with, without))
                    .collect::<Vec<_>>(),
            ),
        }),
        shown_in: unit,
    }
}

impl Spread {
    fn of(ratios: &[f64]) -> Self {
        Self {
            ratio: median(ratios),
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        }
    }

    fn cells(&self) -> [String; 3] {
        [self.ratio, self.ratio_min, self.ratio_max].map(|ratio| format!("{ratio:.2}"))
    }
}

/// A line for each workload that is below what it must reach or keep.
fn missed(workloads: &[Compared], min_ratios: &[(String, f64)], min_kept: Option<f64>) -> String {
    let mut text = String::new();
    for workload in workloads {
        let name = workload.name;
        for (_, min) in min_ratios.iter().filter(|(begin, _)| name.starts_with(begin)) {
            let ratio = workload.ratio.ratio;
            if ratio < *min {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name} reaches a ratio of {ratio:.2}, not {min:.2}");
            }
        }
        if let (Some(crowded), Some(min)) = (&workload.crowded, min_kept) {
            let kept = crowded.kept.ratio;
            if kept < min {
                let _ = writeln!(text, "{name} keeps {kept:.2} of its ratio, not {min:.2}");
            }
        }
    }
    text
}

fn table(result: &Comparison) -> Table {
    let mut head = vec!["workload", "unit", "broker", "against", "other", "ratio", "min", "max"];
    if result.workloads.iter().any(|workload| workload.crowded.is_some()) {
        head.extend(["crowded", "kept", "min", "max"]);
    }
    let mut table = Table::new(&head);
    for workload in &result.workloads {
        let unit = workload.shown_in;
        let names = [workload.name, unit.head()].map(str::to_owned);
        let values =
            [unit.shown(workload.broker), workload.other_is.to_owned(), unit.shown(workload.other)];
        let mut cells = [&names[..], &values, &workload.ratio.cells()].concat();
        if let Some(crowded) = &workload.crowded {
            cells.push(unit.shown(crowded.broker));
            cells.extend(crowded.kept.cells());
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches as _, Subcommand as _};

    use super::super::args::BenchCommand;
    use super::*;

    fn args(args: &[&str]) -> CompareArgs {
        let command = BenchCommand::augment_subcommands(clap::Command::new("bench"));
        let matches = command.get_matches_from([&["bench", "compare"], args].concat());
        match BenchCommand::from_arg_matches(&matches).unwrap() {
            BenchCommand::Compare(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn workload(name: &str) -> &'static Workload {
        WORKLOADS.iter().find(|workload| workload.name == name).unwrap()
    }

    fn rounds(values: &[(f64, f64, Option<f64>)]) -> Vec<Round> {
        let round = |&(broker, other, crowded)| Round { broker, other, crowded };
        values.iter().map(round).collect()
    }

    fn near(value: f64, want: f64) -> bool {
        (value - want).abs() < 1e-9
    }

    #[test]
    fn the_median_of_the_ratios_not_the_ratio_of_the_medians() {
        let rounds = rounds(&[(50.0, 100.0, None), (10.0, 10.0, None), (90.0, 100.0, None)]);
        let found = compared(workload("consume-1k"), &rounds, &args(&[]));
        let Spread { ratio, ratio_min, ratio_max } = found.ratio;
        assert!(near(ratio, 0.9) && near(ratio_min, 0.5) && near(ratio_max, 1.0));
        assert!(near(found.broker, 50.0) && near(found.other, 100.0) && found.crowded.is_none());
    }

    #[test]
    fn what_silent_connections_leave_of_it() {
        let args = args(&["--idle", "2", "--parked", "3"]);
        let rounds = rounds(&[(50.0, 25.0, Some(100.0)), (50.0, 25.0, Some(40.0))]);
        let found = compared(workload("e2e"), &rounds, &args);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["broker"], &json["other"]), (&50.0.into(), &25.0.into()));
        assert_eq!((&json["unit"], &json["ratio"]), (&"p50_us".into(), &0.5.into()));
        let crowded = &json["crowded"];
        assert_eq!((&crowded["idle"], &crowded["parked"]), (&2.into(), &3.into()));
        assert_eq!((&crowded["broker"], &crowded["ratio"]), (&70.0.into(), &0.875.into()));
    }

    #[test]
    fn what_is_too_low_is_named() {
        let rounds = rounds(&[(4.0, 10.0, Some(3.0))]);
        let found = [compared(workload("consume-1k"), &rounds, &args(&["--idle", "1"]))];
        let at_least = |name: &str, min: f64| missed(&found, &[(name.to_owned(), min)], None);
        assert_eq!(at_least("consume", 0.39), "");
        assert_eq!(at_least("produce", 0.9), "");
        assert_eq!(at_least("consume", 0.5), "consume-1k reaches a ratio of 0.40, not 0.50\n");
        assert_eq!(missed(&found, &[], Some(0.7)), "");
        let said = "consume-1k keeps 0.75 of its ratio, not 0.95\n";
        assert_eq!(missed(&found, &[], Some(0.95)), said);
    }

    #[test]
    fn a_disk_is_used_only_when_asked_for() {
        let names = |only: &[&str]| {
            let chosen = chosen(&args(only)).unwrap();
            chosen.iter().map(|workload| workload.name).collect::<Vec<_>>()
        };
        assert!(names(&[]).contains(&"consume-1k") && !names(&[]).contains(&"cold-reader"));
        assert_eq!(names(&["--only", "consume", "--only", "commit"]).len(), 7);
        assert_eq!(names(&["--only", "cold-shared-"]), ["cold-shared-4conn"]);
    }
}
