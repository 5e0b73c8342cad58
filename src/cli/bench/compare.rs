//! `hermitmq bench compare`: how much of what the machine can do the broker reaches.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::failure::Failure;

use super::args::CompareArgs;
use super::progress::Progress;
use super::report::{self, Table};
use super::stats::median;
use super::workload::{Kind, Round, WORKLOADS, Workload};

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
    /// Median of the rounds' ratios: the share of the machine's limit.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    #[serde(flatten)]
    medians: Medians,
}

/// Both sides in the unit that their names say.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
enum Medians {
    Throughput { broker_bytes_per_sec: f64, limit_bytes_per_sec: f64 },
    Latency { broker_p50_us: f64, limit_p50_us: f64 },
}

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let chosen = chosen(args)?;
    let steps = chosen.len() as u64 * (u64::from(args.rounds) + 1);
    let progress = Progress::steps("compare", steps);
    let mut workloads = Vec::new();
    for workload in &chosen {
        progress.say(workload.name);
        let rounds = workload.run(args, &progress)?;
        workloads.push(compared(workload, &rounds));
    }
    drop(progress);
    let result =
        Comparison { workload: "compare", rounds: args.rounds, mb_per_round: args.mb, workloads };
    report::print(args.output, &result, &table(&result))?;
    match missed(&result.workloads, &args.min_ratio) {
        missed if missed.is_empty() => Ok(()),
        missed => Err(Failure::Runtime(missed.trim_end().to_owned())),
    }
}

/// The workloads that are asked for. A name that means none of them is a mistake.
fn chosen(args: &CompareArgs) -> Result<Vec<Workload>, Failure> {
    let wanted = |workload: &Workload| {
        args.only.is_empty() || args.only.iter().any(|name| workload.name.starts_with(name))
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
    Ok(chosen)
}

fn compared(workload: &Workload, rounds: &[Round]) -> Compared {
    let latency = workload.kind == Kind::E2e;
    let ratio = |round: &Round| {
        // Of latencies less is better.
        let (part, whole) =
            if latency { (round.limit, round.broker) } else { (round.broker, round.limit) };
        part / whole.max(f64::MIN_POSITIVE)
    };
    let ratios: Vec<_> = rounds.iter().map(ratio).collect();
    let of = |side: fn(&Round) -> f64| median(&rounds.iter().map(side).collect::<Vec<_>>());
    let (broker, limit) = (of(|round| round.broker), of(|round| round.limit));
    let medians = if latency {
        Medians::Latency { broker_p50_us: broker, limit_p50_us: limit }
    } else {
        Medians::Throughput { broker_bytes_per_sec: broker, limit_bytes_per_sec: limit }
    };
    Compared {
        name: workload.name,
        ratio: median(&ratios),
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        medians,
    }
}

/// A line for each workload that is below what it must reach.
fn missed(workloads: &[Compared], min_ratios: &[(String, f64)]) -> String {
    let mut text = String::new();
    for workload in workloads {
        for (_, min) in min_ratios.iter().filter(|(name, _)| workload.name.starts_with(name)) {
            if workload.ratio < *min {
                let (name, ratio) = (workload.name, workload.ratio);
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name} reaches {ratio:.2} of the limit, not {min:.2}");
            }
        }
    }
    text
}

fn table(result: &Comparison) -> Table {
    let mut table = Table::new(&["workload", "unit", "broker", "limit", "ratio", "min", "max"]);
    for workload in &result.workloads {
        let (unit, broker, limit) = match workload.medians {
            Medians::Throughput { broker_bytes_per_sec, limit_bytes_per_sec } => {
                ("MB/s", report::mb(broker_bytes_per_sec), report::mb(limit_bytes_per_sec))
            }
            Medians::Latency { broker_p50_us, limit_p50_us } => {
                ("p50 us", format!("{broker_p50_us:.1}"), format!("{limit_p50_us:.1}"))
            }
        };
        let ratios = [workload.ratio, workload.ratio_min, workload.ratio_max];
        let names = [workload.name.to_owned(), unit.to_owned(), broker, limit];
        table.row(names.into_iter().chain(ratios.map(|ratio| format!("{ratio:.2}"))).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(pairs: &[(f64, f64)]) -> Vec<Round> {
        pairs.iter().map(|&(broker, limit)| Round { broker, limit }).collect()
    }

    #[test]
    fn the_median_of_the_ratios_not_the_ratio_of_the_medians() {
        let rounds = rounds(&[(50.0, 100.0), (10.0, 10.0), (90.0, 100.0)]);
        let found = compared(&WORKLOADS[0], &rounds);
        let near = |value: f64, want: f64| (value - want).abs() < 1e-9;
        assert!(near(found.ratio, 0.9) && near(found.ratio_min, 0.5) && near(found.ratio_max, 1.0));
        let Medians::Throughput { broker_bytes_per_sec, limit_bytes_per_sec } = found.medians
        else {
            panic!("{found:?}");
        };
        assert!(near(broker_bytes_per_sec, 50.0) && near(limit_bytes_per_sec, 100.0));
    }

    #[test]
    fn of_latencies_less_is_better() {
        let e2e = WORKLOADS.iter().find(|workload| workload.kind == Kind::E2e).unwrap();
        let found = compared(e2e, &rounds(&[(50.0, 25.0)]));
        assert!((found.ratio - 0.5).abs() < 1e-9);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["broker_p50_us"], &json["limit_p50_us"]), (&50.0.into(), &25.0.into()));
    }

    #[test]
    fn what_is_too_low_is_named() {
        let found = [compared(&WORKLOADS[0], &rounds(&[(4.0, 10.0)]))];
        let at_least = |name: &str, min: f64| missed(&found, &[(name.to_owned(), min)]);
        assert_eq!(at_least("consume", 0.39), "");
        assert_eq!(at_least("produce", 0.9), "");
        assert_eq!(at_least("consume", 0.5), "consume-1k reaches 0.40 of the limit, not 0.50\n");
    }
}
