//! The runs.

use std::{env, time::Duration};

use nix::errno::Errno;

use super::{
    SEED_VARIABLE,
    plan::{Act, ChildPlan, Dice, Keeper, Obedience, Plan},
    play,
};
use crate::{
    arena::Budget,
    io::scripted::{End, Event, Reader, Room},
};

const SEEDS: std::ops::Range<u64> = 0..6_000;

fn play_seed(seed: u64) -> usize {
    let name = format!(
        "seed {seed}; to play it alone: {SEED_VARIABLE}={seed} cargo test --lib simulation"
    );
    play(&Dice::new(seed).plan(), &name)
}

#[test]
fn random_sessions_keep_the_contract() {
    if let Ok(seed) = env::var(SEED_VARIABLE) {
        let seed = seed.parse().expect("a seed is a number");
        eprintln!("{:?}", Dice::new(seed).plan());
        play_seed(seed);
        return;
    }
    let awaits: usize = SEEDS.map(play_seed).sum();
    assert!(
        awaits > 20_000,
        "only {awaits} awaits: the plans have become empty"
    );
}

/// Output with characters of each length, cut and broken ones.
const TEXT: &[u8] = b"a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xffz\xe2\x82\xf0\x9fb\xed\xa0\x80\n";

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A session that does nothing out of the ordinary: both pipes end, then the leader.
fn plain() -> Plan {
    Plan {
        budget: Budget {
            bytes: 20,
            records: Some(9),
        },
        timeout: ms(2_000),
        stdout: (vec![Event::Bytes(b"out".to_vec())], End::Eof),
        stderr: (vec![Event::Bytes(b"err".to_vec())], End::Eof),
        stdin: Some((Vec::new(), Reader::Reads)),
        child: ChildPlan {
            exits: Some((ms(50), 0)),
            leader: Obedience {
                term: Some(ms(3)),
                kill: Some(ms(1)),
            },
            others: 1,
            group: Obedience {
                term: None,
                kill: Some(ms(1)),
            },
            keeper: Keeper::Answers(ms(1)),
        },
        acts: Vec::new(),
        at_await: None,
    }
}

/// `TEXT[..offset]` in pieces of `longest`, with what else the kernel may say in between.
fn chopped(offset: usize, longest: usize) -> Vec<Event> {
    let pieces = TEXT[..offset].chunks(longest);
    let events = pieces.flat_map(|piece| {
        [
            Event::Error(Errno::EINTR),
            Event::Late(ms(1)),
            Event::Bytes(piece.to_vec()),
            Event::Error(Errno::EAGAIN),
            Event::Quiet(ms(2)),
        ]
    });
    events.collect()
}

#[test]
fn output_may_end_or_fail_or_stay_open_at_every_offset() {
    let ends = [End::Eof, End::Failed(Errno::EIO), End::Open, End::Flood];
    for offset in 0..=TEXT.len() {
        for end in ends {
            for longest in [1, 2, 3, TEXT.len()] {
                let mut plan = plain();
                plan.stdout = (chopped(offset, longest), end);
                // The other stream comes in between, also in the middle of a character.
                plan.stderr = (chopped(TEXT.len() - offset, 2), End::Eof);
                play(
                    &plan,
                    &format_args!("{end:?} at {offset}, pieces of {longest}"),
                );
            }
        }
    }
}

#[test]
fn input_may_break_or_stall_at_every_offset() {
    let text = b"0123456789abcdef";
    let breaks = [Errno::EPIPE, Errno::EIO].map(|errno| (Some(errno), Reader::Reads));
    for (errno, reader) in breaks.into_iter().chain([(None, Reader::Stalls)]) {
        for offset in 0..=2 * text.len() {
            for short in [1, 5, 64] {
                let mut plan = plain();
                plan.child.exits = Some((ms(1_800), 0));
                let mut room: Vec<Room> = (0..offset)
                    .step_by(short)
                    .map(|at| Room::Bytes(short.min(offset - at)))
                    .flat_map(|bytes| {
                        [
                            Room::Error(Errno::EAGAIN),
                            Room::None(ms(1)),
                            Room::Error(Errno::EINTR),
                            bytes,
                        ]
                    })
                    .collect();
                room.extend(errno.map(Room::Error));
                plan.stdin = Some((room, reader));
                let write = |close| Act::Write {
                    text: text.to_vec(),
                    close,
                };
                plan.acts = vec![
                    (ms(1), write(false)),
                    (ms(0), write(true)),
                    (ms(0), write(false)),
                ];
                play(
                    &plan,
                    &format_args!("{errno:?} after {offset} bytes of input, {short} at a time"),
                );
            }
        }
    }
}

/// Sessions whose pipes come to many awaits, each in another way.
fn busy() -> [Plan; 4] {
    let mut busy = plain();
    busy.stdout = (chopped(TEXT.len(), 2), End::Eof);
    busy.stderr = (chopped(TEXT.len(), 3), End::Eof);
    let room = [Room::Bytes(2), Room::None(ms(3)), Room::Late(ms(2))];
    busy.stdin = Some((room.into_iter().cycle().take(30).collect(), Reader::Reads));
    let write = Act::Write {
        text: TEXT.to_vec(),
        close: false,
    };
    busy.acts = vec![(ms(0), write.clone()), (ms(1), write)];
    let mut stalls = busy.clone();
    stalls.stdin = Some((vec![Room::Bytes(3)], Reader::Stalls));
    stalls.child.exits = Some((ms(1_500), 7));
    let mut floods = busy.clone();
    floods.stdout.1 = End::Flood;
    floods.stderr.1 = End::Open;
    let mut stubborn = busy.clone();
    stubborn.child.exits = None;
    stubborn.child.leader.term = None;
    [busy, stalls, floods, stubborn]
}

#[test]
fn whatever_is_asked_at_any_await_is_done() {
    let acts = [
        Act::Terminate(ms(0)),
        Act::Terminate(ms(500)),
        Act::Shutdown,
        Act::Cancel,
        Act::Write {
            text: b"more".to_vec(),
            close: true,
        },
    ];
    for (number, plan) in busy().into_iter().enumerate() {
        let awaits = play(&plan, &format_args!("busy session {number}"));
        assert!(awaits > 30, "session {number} comes to {awaits} awaits");
        for at in 0..awaits {
            for act in &acts {
                let mut plan = plan.clone();
                plan.at_await = Some((at, act.clone()));
                play(
                    &plan,
                    &format_args!("{act:?} at await {at} of session {number}"),
                );
            }
        }
    }
}
