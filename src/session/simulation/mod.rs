//! Whole sessions, two pumps, input writer and driver, played thousands of times against scripted pipes and a scripted
//! child in virtual time, and compared with a naive model of the contract.
//!
//! - `plan`: what happens, from a seed
//! - `world`: plays it and looks on
//! - `model`: what the text must be
//! - `verdict`: what else must hold in the end

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

mod model;
mod plan;
mod tests;
mod verdict;
mod world;

use plan::Plan;

/// Plays one seed alone.
const SEED_VARIABLE: &str = "SLUICEGATE_SIMULATION_SEED";

/// Plays the plan, and says which it was when it fails.
fn play(plan: &Plan, name: &dyn std::fmt::Display) -> usize {
    match catch_unwind(AssertUnwindSafe(|| world::play(plan))) {
        Ok(awaits) => awaits,
        Err(panic) => {
            eprintln!("simulation failed: {name}\n{plan:?}");
            resume_unwind(panic)
        }
    }
}
