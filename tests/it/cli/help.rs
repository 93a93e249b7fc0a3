//! Help texts are part of what people rely on: a change shows in the snapshot.

use crate::cli::house::House;

/// Every command that has a help text of its own.
const COMMANDS: [&str; 28] = [
    "",
    "up",
    "serve",
    "runner",
    "sweep",
    "sessions",
    "sessions import",
    "explain",
    "runs",
    "timeline",
    "sweeps",
    "start",
    "send",
    "attach",
    "end",
    "keep",
    "pause",
    "resume",
    "runners",
    "runners add",
    "runners remove",
    "runners reset",
    "tokens",
    "tokens create",
    "tokens revoke",
    "doctor",
    "config",
    "completions",
];

#[test]
fn help_texts() {
    let house = House::new();
    let mut all = String::new();
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        all.push_str(&format!("$ sexton {}\n{}\n", args.join(" "), house.done(&args)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn help_is_a_command_too() {
    let house = House::new();
    assert_eq!(house.done(&["help"]), house.done(&["--help"]));
    assert_eq!(house.done(&["help", "sweep"]), house.done(&["sweep", "--help"]));
}

#[test]
fn inner_modes_are_nobodys_business() {
    let help = House::new().done(&["--help"]);
    for inner in ["shim", "sample-engine", "detach"] {
        assert!(!help.contains(inner), "{inner}: {help}");
    }
}

#[test]
fn completions_need_no_settings() {
    let house = House::new();
    house.configure("nonsense");
    for shell in ["bash", "zsh", "fish"] {
        assert!(house.done(&["completions", shell]).contains("sexton"), "{shell}");
    }
}
