//! The shipped units: what a stop of them would do to engines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const UNITS: [&str; 4] = [
    "user/sexton-runner.service",
    "user/sexton-worker.service",
    "system/sexton-runner.service",
    "system/sexton-worker.service",
];

fn path(unit: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd").join(unit)
}

/// Reads the settings below `[Service]`, each of which may stand there once.
fn service(unit: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path(unit)).unwrap();
    let (_, service) = text.split_once("[Service]\n").unwrap();
    let lines = service.lines().take_while(|line| !line.starts_with('['));
    let mut settings = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once('=').unwrap();
        assert_eq!(settings.insert(key.to_owned(), value.to_owned()), None, "{unit}: {key} twice");
    }
    settings
}

#[test]
fn a_stop_of_a_runners_unit_harms_no_engine() {
    for unit in UNITS.iter().filter(|unit| unit.ends_with("sexton-runner.service")) {
        let settings = service(unit);
        for (key, value) in [("KillMode", "process"), ("Delegate", "yes"), ("OOMPolicy", "continue")] {
            assert_eq!(settings.get(key).map(String::as_str), Some(value), "{unit}: {key}");
        }
        assert!(settings["ExecStart"].ends_with("/sexton runner"), "{unit}");
        // Each of these would reach engines that only their own session is to stop, or hide their repositories.
        for key in ["PrivateTmp", "ProtectHome", "ProtectSystem", "ExecStop", "ExecStopPost", "RuntimeMaxSec"] {
            assert_eq!(settings.get(key), None, "{unit}: {key}");
        }
    }
}

#[test]
fn each_unit_comes_back_after_a_failure_and_needs_no_other() {
    for unit in UNITS {
        assert_eq!(service(unit)["Restart"], "on-failure", "{unit}");
        let text = std::fs::read_to_string(path(unit)).unwrap();
        for order in ["After=", "Requires=", "BindsTo=", "PartOf="] {
            assert!(!text.contains(order), "{unit}: {order} would make runner and worker depend on each other");
        }
    }
    for unit in ["user/sexton-worker.service", "system/sexton-worker.service"] {
        assert!(service(unit)["ExecStart"].ends_with("/sexton serve"), "{unit}");
        assert_eq!(service(unit)["ExecReload"], "/bin/kill -HUP $MAINPID", "{unit}");
    }
    for unit in ["user/sexton-runner.service", "system/sexton-runner.service"] {
        assert_eq!(service(unit).get("ExecReload"), None, "{unit}: a hangup ends a runner");
    }
}

#[test]
fn systemd_itself_finds_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    for unit in UNITS {
        let (manager, name) = unit.split_once('/').unwrap();
        let text = std::fs::read_to_string(path(unit)).unwrap();
        let program = env!("CARGO_BIN_EXE_sexton");
        let text = text.replace("%h/.cargo/bin/sexton", program).replace("/usr/local/bin/sexton", program);
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args([&format!("--{manager}"), "--man=no", "verify"]).arg(&file);
        match command.env("XDG_RUNTIME_DIR", folder.path()).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && !said.contains(name), "{unit}: {said}");
            }
            Err(_) => {
                assert_ne!(std::env::var("SEXTON_REQUIRE").as_deref(), Ok("all"), "systemd-analyze is not installed");
                eprintln!("skipped: systemd-analyze is not installed");
                return;
            }
        }
    }
}
