//! A long random use: sessions of all kinds are started, typed to, read, cancelled and ended in no order, on one server after
//! the other, until the time is over. Every character that a command is known to have printed is compared; every process,
//! zombie and descriptor is accounted for.
//!
//! Five seconds as a part of the suite; `SLUICEGATE_SOAK_SECONDS=1800 cargo test --test behaviour soak -- --nocapture` is the
//! long one, and `SLUICEGATE_SOAK_SEED` plays the choices of an earlier one again (the machine's timing is its own).

use std::{
    env,
    time::{Duration, Instant, SystemTime},
};

use crate::common::{
    Call, Owner, Server, Session, proc,
    session::{is_final, is_settled},
    wait_until,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Sessions that run side by side.
const LIVE: usize = 12;
/// What is done on one server before it goes.
const ACTIONS: u64 = 150;

/// What has been seen in all.
#[derive(Debug, Default)]
struct Tally {
    servers: u32,
    killed_servers: u32,
    sessions: u32,
    calls: u64,
    cancelled: u32,
    compared_bytes: u64,
    most_descriptors: usize,
    most_resident_bytes: u64,
}

/// Choices, the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}

/// What a session is known to print.
enum Prints {
    /// This, and then it ends.
    Exactly,
    /// What it is typed: all of this, and perhaps some of a write that was taken back.
    Typed { whole: String, perhaps: String },
    /// `y` and a newline without end.
    Flood,
    /// Nothing.
    Nothing,
}

struct Live<'a> {
    session: Session<'a>,
    prints: Prints,
    /// It was told to end, so it may have printed less.
    ended_early: bool,
}

/// The profiles, each with a different way of being hard to follow or to end.
const JOBS: [&str; 6] = ["text", "echo", "flood", "deaf", "escaped", "exits"];

fn owner(text: &str) -> Owner {
    Owner::new()
        .set("retention_seconds", 1)
        .set("max_sessions", LIVE)
        .set("max_records", 64)
        .buffer(1 << 20)
        .bytes("text", text.as_bytes())
        .argv("echo", &["/bin/cat"])
        .argv("flood", &["/usr/bin/yes"])
        .sh("deaf", "trap '' TERM HUP INT; while :; do sleep 0.05; done")
        .sh(
            "escaped",
            "(setsid sh -c '(setsid sleep 600 &); exec sleep 600' &); read line",
        )
        .sh("exits", "sleep 0.01 & exit 3")
        .argv("missing", &["/bin/sh/nowhere"])
}

/// Characters of one to four bytes, a quarter of a megabyte of them.
fn text() -> String {
    (0..20_000)
        .map(|line| format!("{line} äöü 漢字 🦀\r"))
        .collect()
}

/// One server's life.
struct Round<'a> {
    server: &'a Server,
    text: &'a str,
    dice: &'a mut Dice,
    tally: &'a mut Tally,
    live: Vec<Live<'a>>,
}

impl<'a> Round<'a> {
    fn act(&mut self) {
        self.tally.calls += 1;
        match self.dice.below(16) {
            0..5 => self.start(),
            5..8 => self.write(),
            8..11 => self.read_somewhere(),
            11..13 => self.end_one(),
            13 => self.misuse(),
            14 => self.abandon_a_read(),
            _ => self.look(),
        }
    }

    fn start(&mut self) {
        if self.live.len() >= LIVE {
            let refused = self
                .server
                .call("terminal_start", json!({"command_id": "echo"}));
            let allowed = refused["ok"] == true || refused["error"]["code"] == "SESSION_LIMIT";
            assert!(allowed, "{refused}");
            if refused["ok"] == true {
                // One of them had ended by itself.
                self.adopt(Session::of(self.server, refused), "echo");
            }
            return;
        }
        let job = JOBS[self.dice.index(JOBS.len())];
        let session = self.server.start(job);
        self.adopt(session, job);
    }

    fn adopt(&mut self, session: Session<'a>, job: &str) {
        self.tally.sessions += 1;
        let prints = match job {
            "text" => Prints::Exactly,
            "echo" => Prints::Typed {
                whole: String::new(),
                perhaps: String::new(),
            },
            "flood" => Prints::Flood,
            _ => Prints::Nothing,
        };
        self.live.push(Live {
            session,
            prints,
            ended_early: false,
        });
    }

    /// Types to an echo, and takes it back now and then.
    fn write(&mut self) {
        let size = 1 + self.dice.index(2000);
        let take_back = self.dice.below(4) == 0;
        let Some(one) = self.pick(|one| matches!(one.prints, Prints::Typed { .. })) else {
            return;
        };
        let Live {
            session, prints, ..
        } = &mut self.live[one];
        let Prints::Typed { whole, perhaps } = prints else {
            unreachable!("it was picked for it")
        };
        let line = "Ω".repeat(size);
        let call = self
            .server
            .send("terminal_write", session.with_id(json!({"text": line})));
        if take_back {
            call.cancel();
            self.tally.cancelled += 1;
            self.server.ping();
            // Taken back or answered: the first such write makes the input uncertain or is whole.
            if call.is_answered() {
                settle(&call.body(), &line, whole, perhaps);
            } else {
                perhaps.push_str(&line);
            }
        } else {
            settle(&call.body(), &line, whole, perhaps);
        }
    }

    fn read_somewhere(&mut self) {
        let Some(one) = self.pick(|_| true) else {
            return;
        };
        let session = &self.live[one].session;
        let status = session.status();
        let (base, next) = (
            cursor(&status, "base_cursor"),
            cursor(&status, "next_cursor"),
        );
        let at = base + self.dice.below(next - base + 1);
        let arguments = session.with_id(json!({
            "cursor": at,
            "max_bytes": 4 + self.dice.below(65_533),
            "wait_ms": self.dice.below(20),
        }));
        let page = self.server.call("terminal_read", arguments);
        if page["ok"] == false {
            assert_eq!(page["error"]["code"], "CURSOR_EXPIRED", "{page}");
            assert!(matches!(self.live[one].prints, Prints::Flood), "{page}");
            return;
        }
        if matches!(self.live[one].prints, Prints::Flood) {
            self.tally.compared_bytes += check_flood(&page);
        }
    }

    fn end_one(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let one = self.dice.index(self.live.len());
        let live = self.live.swap_remove(one);
        self.end(live);
    }

    /// Ends a session and compares what it left with what it is known to have printed.
    fn end(&mut self, mut live: Live<'a>) {
        let session = &live.session;
        let by_itself = matches!(live.prints, Prints::Exactly | Prints::Typed { .. });
        if by_itself && self.dice.below(3) > 0 {
            // Ends an echo; the others have ended or don't read.
            let close = session.with_id(json!({"text": "", "close_stdin": true}));
            self.server.call("terminal_write", close);
        } else {
            live.ended_early = true;
            let end = session.with_id(json!({"grace_ms": self.dice.below(200)}));
            self.server.call("terminal_terminate", end);
        }
        wait_until("the session has settled", || {
            let status = session.with_id(json!({}));
            let status = self.server.call("terminal_status", status);
            // One that ended long before this may be forgotten.
            let forgotten = status["error"]["code"] == "SESSION_NOT_FOUND";
            forgotten || (is_final(&status) && is_settled(&status))
        });
        session.assert_group_is_gone();
        self.compare(&live);
    }

    /// Holds what an ended session printed against what it is known to print, unless it is forgotten by now.
    fn compare(&mut self, live: &Live) {
        if matches!(live.prints, Prints::Flood | Prints::Nothing) {
            return;
        }
        let Some(printed) = self.printed(&live.session) else {
            return;
        };
        self.tally.compared_bytes += printed.len() as u64;
        let (least, most) = match &live.prints {
            Prints::Typed { whole, perhaps } => (whole.as_str(), format!("{whole}{perhaps}")),
            _ => (self.text, self.text.to_owned()),
        };
        // Killed, or cut off from its input, in the middle of a character.
        let cut = printed.strip_suffix('\u{fffd}');
        let printed = cut.filter(|cut| cut.len() < most.len()).unwrap_or(&printed);
        assert!(most.starts_with(printed), "other text than it printed");
        let whole = printed.len() >= least.len();
        let (is, least) = (printed.len(), least.len());
        assert!(live.ended_early || whole, "{is} bytes of {least}");
    }

    /// All of stdout, when the session isn't forgotten meanwhile.
    fn printed(&self, session: &Session) -> Option<String> {
        let mut printed = String::new();
        let mut next = 0;
        loop {
            let at = json!({"cursor": next, "wait_ms": 2000});
            let page = self.server.call("terminal_read", session.with_id(at));
            if page["ok"] == false {
                assert_eq!(page["error"]["code"], "SESSION_NOT_FOUND", "{page}");
                return None;
            }
            for record in page["records"].as_array().expect("records") {
                assert_eq!(record["cursor"], next, "no gap");
                let text = record["text"].as_str().expect("text");
                next += text.chars().count() as u64;
                printed.push_str(text);
            }
            if page["output_complete"] == true && page["has_more"] == false {
                return Some(printed);
            }
        }
    }

    /// Calls that are wrong, each with its own error.
    fn misuse(&mut self) {
        match self.dice.below(4) {
            0 => {
                let code = self
                    .server
                    .code("terminal_start", json!({"command_id": "missing"}));
                // At the limit of sessions that comes first.
                assert!(code == "START_FAILED" || code == "SESSION_LIMIT", "{code}");
            }
            1 => {
                let none = json!({"session_id": "none"});
                assert_eq!(
                    self.server.code("terminal_status", none),
                    "SESSION_NOT_FOUND"
                );
            }
            2 => self.server.send_line("{\"jsonrpc\":\"2.0\",\"id\":"),
            _ => {
                let far = json!({"cursor": u64::MAX >> 1});
                let Some(one) = self.pick(|_| true) else {
                    return;
                };
                let far = self.live[one].session.with_id(far);
                assert_eq!(self.server.code("terminal_read", far), "INVALID_CURSOR");
            }
        }
    }

    /// A read that waits for what doesn't come, and is taken back.
    fn abandon_a_read(&mut self) {
        let Some(one) = self.pick(|one| matches!(one.prints, Prints::Nothing)) else {
            return;
        };
        let session = &self.live[one].session;
        let wait = session.with_id(json!({"cursor": 0, "wait_ms": 2000}));
        let call: Call<'_> = self.server.send("terminal_read", wait);
        call.cancel();
        self.tally.cancelled += 1;
    }

    fn look(&mut self) {
        let descriptors = self.server.descriptor_count();
        self.tally.most_descriptors = self.tally.most_descriptors.max(descriptors);
        let resident = self.server.resident();
        self.tally.most_resident_bytes = self.tally.most_resident_bytes.max(resident);
        // Those that ended by themselves are as good as any other until their retention is over.
        let all = self.server.ok("terminal_status", json!({}));
        let running = all["sessions"].as_array().expect("a list");
        let running = running.iter().filter(|one| !is_final(one)).count();
        assert!(running <= LIVE, "{running}");
    }

    /// A live session that isn't final and is right for it.
    fn pick(&mut self, right: impl Fn(&Live) -> bool) -> Option<usize> {
        self.forget_what_ended();
        let fits: Vec<usize> = (0..self.live.len())
            .filter(|&one| right(&self.live[one]))
            .collect();
        (!fits.is_empty()).then(|| fits[self.dice.index(fits.len())])
    }

    /// What ends by itself would be gone before it is asked for again.
    fn forget_what_ended(&mut self) {
        let mut one = 0;
        while one < self.live.len() {
            let live = &self.live[one];
            let status = self
                .server
                .call("terminal_status", live.session.with_id(json!({})));
            if status["ok"] == true && !is_final(&status) {
                one += 1;
                continue;
            }
            let live = self.live.swap_remove(one);
            self.compare(&live);
        }
    }

    /// Ends all sessions and waits until they are forgotten: the server must be as it was before the first.
    fn come_to_rest(&mut self, descriptors_before: usize) {
        while let Some(live) = self.live.pop() {
            self.end_if_kept(live);
        }
        wait_until("every session is forgotten", || {
            let all = self.server.ok("terminal_status", json!({}));
            all["sessions"].as_array().is_some_and(Vec::is_empty)
        });
        wait_until("no descriptor is left", || {
            proc::descriptors(self.server.pid()).len() <= descriptors_before
        });
        assert!(self.server.zombies().is_empty());
    }

    fn end_if_kept(&mut self, live: Live<'a>) {
        let status = self
            .server
            .call("terminal_status", live.session.with_id(json!({})));
        if status["ok"] == true && !is_final(&status) {
            self.end(live);
        }
    }
}

/// Takes in what a write's answer says of its text.
fn settle(answer: &Value, line: &str, whole: &mut String, perhaps: &mut String) {
    if answer["ok"] == true {
        // One that was taken back before it would have closed stdin: it was through by then.
        whole.push_str(perhaps);
        perhaps.clear();
        whole.push_str(line);
        return;
    }
    match answer["error"]["code"].as_str() {
        // Nothing of it was taken.
        Some("INPUT_UNCERTAIN" | "STDIN_CLOSED" | "SESSION_NOT_RUNNING") => {}
        Some("INPUT_BACKPRESSURE") => perhaps.push_str(line),
        _ => panic!("{answer}"),
    }
}

/// `y` stands at even cursors, a newline at odd ones, whatever was evicted before.
fn check_flood(page: &Value) -> u64 {
    let mut bytes = 0;
    for record in page["records"].as_array().expect("records") {
        let at = cursor(record, "cursor");
        let text = record["text"].as_str().expect("text");
        let right = text
            .bytes()
            .zip(at..)
            .all(|(byte, at)| byte == if at % 2 == 0 { b'y' } else { b'\n' });
        assert!(right, "a flood's text is not where it belongs, at {at}");
        bytes += text.len() as u64;
    }
    bytes
}

fn cursor(of: &Value, name: &str) -> u64 {
    of[name].as_u64().expect("a cursor")
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

#[test]
fn a_random_use_loses_nothing_and_leaves_nothing() {
    let time = Duration::from_secs(number("SLUICEGATE_SOAK_SECONDS").unwrap_or(5));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_nanos() as u64;
    let seed = number("SLUICEGATE_SOAK_SEED").unwrap_or(now);
    eprintln!("SLUICEGATE_SOAK_SEED={seed}");
    let mut dice = Dice(seed);
    let mut tally = Tally::default();
    let text = text();
    let began = Instant::now();
    while tally.servers == 0 || began.elapsed() < time {
        let mut server = owner(&text).serve();
        tally.servers += 1;
        // The first session leaves what is made once.
        server.start("exits").wait_settled();
        let descriptors = proc::descriptors(server.pid()).len();
        let mut round = Round {
            server: &server,
            text: &text,
            dice: &mut dice,
            tally: &mut tally,
            live: Vec::new(),
        };
        for _ in 0..ACTIONS {
            round.act();
        }
        let way = round.dice.below(4);
        if way == 0 {
            round.come_to_rest(descriptors);
        }
        drop(round);
        let family = proc::descendants_of(server.pid());
        let pids: Vec<i32> = family.iter().map(|process| process.pid).collect();
        let _doomed: Vec<proc::Doomed> = pids.iter().copied().map(proc::Doomed::process).collect();
        match way {
            0 | 1 => {
                server.close_stdin();
                server.assert_exits_cleanly();
            }
            2 => {
                server.signal(Signal::SIGTERM);
                server.assert_exits_cleanly();
            }
            _ => {
                tally.killed_servers += 1;
                server.signal(Signal::SIGKILL);
                server.wait();
            }
        }
        wait_until("nothing is left", || {
            family
                .iter()
                .all(|process| proc::stat(process.pid).is_none_or(|now| now.is_zombie()))
        });
    }
    eprintln!("{} s: {tally:#?}", began.elapsed().as_secs());
}
