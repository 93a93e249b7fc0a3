//! Passes over a real store against scripted runners.

mod activity;
mod brakes;
mod crash;
mod deliveries;
mod dry_run;
mod foreign;
mod idle;
mod kill;
mod machine_gone;
mod mid_pass;
mod orphans;
mod processes;
mod races;
mod rules;
mod runs;
mod sentences;
mod sleep;
mod starting;
mod stop_failed;
mod strays;
mod tracked_set;
mod unwritable;
mod warnings;
mod without;
mod worlds;
