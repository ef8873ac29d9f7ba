use std::{
    future::{pending, ready},
    path::Path,
};

use super::*;
use crate::{
    arena::{PageLimits, Unit},
    process::SpawnError,
    supervisor::follow::{Place, Until},
};

/// A config that approves one command.
fn config(argv: &[&str]) -> Config {
    let mut config = Config::demo(Path::new("/"), Path::new("/nonexistent"));
    config.commands.truncate(1);
    config.commands[0].id = "job".to_owned();
    config.commands[0].argv = argv.iter().map(|&arg| arg.to_owned()).collect();
    config
}

/// A host that keeps no log.
fn host(argv: &[&str]) -> Handle {
    let nursery = Arc::new(Nursery::start().unwrap());
    Handle::start_engine(config(argv), Backend::Epoll, nursery, Log::off(), None)
        .unwrap()
        .0
}

async fn start(host: &Handle) -> Result<Snapshot, Refusal> {
    let request = StartRequest {
        command_id: "job".to_owned(),
        ..StartRequest::default()
    };
    let started = host.start(request, |_| (), pending(), pending()).await?;
    Ok(started.snapshot)
}

#[tokio::test]
async fn a_write_that_was_through_when_its_cancellation_came_is_uncertain_all_the_same() {
    let host = host(&["/bin/cat"]);
    let session = start(&host).await.unwrap().session_id;
    let cancelled = host.write(&session, "one".to_owned(), false, None, ready(()));
    // Writes of a session are made in order: once this one is answered, so is the first.
    let after = host.write(&session, "two".to_owned(), false, None, pending());
    assert_eq!(after.await.unwrap().accepted, 3);
    assert_eq!(cancelled.await.unwrap().accepted, 3);

    let snapshot = host.status(&session).unwrap();
    assert!(snapshot.input_uncertain && snapshot.stdin_closed);
    let late = host.write(&session, "three".to_owned(), false, None, pending());
    assert!(matches!(
        late.await,
        Err(Refusal::InputUncertain { accepted: 0 } | Refusal::SessionNotRunning { .. })
    ));
    let limits = PageLimits {
        bytes: 64,
        records: 64,
        unit: Unit::Runs,
    };
    let mut page = Page::default();
    let request = ReadRequest {
        place: Place::Cursor(0),
        limits,
        until: Until::Record,
        wait: Duration::from_secs(2),
    };
    host.read(&session, request, pending(), &mut page)
        .await
        .unwrap();
    assert!(
        page.text.starts_with("one"),
        "what was written stays written"
    );
    host.shut_down(Duration::ZERO).await;
}

/// The soft limit only, so that it can be raised again.
fn limit_memory(bytes: u64) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
    setrlimit(Resource::RLIMIT_AS, bytes.min(hard), hard).unwrap();
}

#[test]
fn a_start_that_can_have_no_thread_is_refused_and_the_next_one_works() {
    crate::process::testing::in_own_process("supervisor::handle::tests::inner_no_thread", "exec");
}

#[tokio::test]
#[ignore = "limits the memory of its process; started by the test above"]
async fn inner_no_thread() {
    let host = host(&["/bin/true"]);
    limit_memory(1 << 20);
    let refused = start(&host).await;
    limit_memory(u64::MAX);
    assert_eq!(
        refused.unwrap_err(),
        Refusal::StartFailed(SpawnError::OutOfProcesses)
    );
    start(&host).await.unwrap();
    host.shut_down(Duration::ZERO).await;
}

/// A host that keeps a log, and where.
fn audited(argv: &[&str]) -> (Handle, Log, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&dir.path().join("log")).unwrap();
    let nursery = Arc::new(Nursery::start().unwrap());
    let host = Handle::start_engine(config(argv), Backend::Epoll, nursery, log.clone(), None);
    (host.unwrap().0, log, dir)
}

/// Events and outcomes of the log so far.
fn told(log: &Log, dir: &tempfile::TempDir) -> Vec<(String, String)> {
    assert!(log.flush(std::time::Instant::now() + Duration::from_secs(30)));
    let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let lines = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (field("event"), field("outcome"))
    });
    lines.collect()
}

#[tokio::test]
async fn calls_that_are_given_up_before_their_outcome_is_known_have_their_line() {
    let (host, log, dir) = audited(&["/bin/sleep", "600"]);
    let session = start(&host).await.unwrap().session_id;
    let text = "x".repeat(60_000);
    let unread = host.write(&session, text.clone(), false, None, pending());
    drop(unread);
    {
        let mut unfinished = Box::pin(host.write(&session, text, false, None, pending()));
        tokio::select! {
            biased;
            ended = &mut unfinished => panic!("nobody reads it: {ended:?}"),
            () = ready(()) => {}
        }
    }
    let pair = |event: &str, outcome: &str| (event.to_owned(), outcome.to_owned());
    let mut expected = vec![
        pair("start", "ok"),
        pair("write", "UNANSWERED"),
        pair("write", "UNANSWERED"),
    ];
    // One poll is as far as its thread, unless this one has to wait for a processor and the other is through meanwhile.
    loop {
        let mut unfinished = Box::pin(start(&host));
        tokio::select! {
            biased;
            started = &mut unfinished => {
                started.expect("there is room for some more");
                expected.push(pair("start", "ok"));
            }
            () = ready(()) => break,
        }
    }
    expected.push(pair("start_refused", "UNANSWERED"));
    assert_eq!(told(&log, &dir), expected);
    host.shut_down(Duration::ZERO).await;
}

#[tokio::test]
async fn a_session_that_has_not_ended_when_the_server_leaves_is_told_of_once() {
    let (host, log, dir) = audited(&["/bin/sleep", "600"]);
    start(&host).await.unwrap();
    host.log_open_ends();
    host.shut_down(Duration::ZERO).await;
    host.ends_logged().await;
    host.log_open_ends();
    let events: Vec<String> = told(&log, &dir)
        .into_iter()
        .map(|(event, _)| event)
        .collect();
    assert_eq!(events, ["start", "end"]);
}
