//! Notifications, and a client that is behind with reading.

use rmcp::model::{NumberOrString, ServerNotification};
use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken};

use super::*;

fn notice(number: usize) -> ServerNotification {
    let token = ProgressToken(NumberOrString::Number(1));
    let param = ProgressNotificationParam::new(token, number as f64).with_message("x".repeat(1000));
    ServerNotification::ProgressNotification(ProgressNotification::new(param))
}

/// Far less than this many fit into a pipe and what may wait for it.
const MANY: usize = 1_000;

#[test]
fn a_client_that_does_not_read_gets_no_more_notices_until_it_does() {
    let (sent, taken) = std::sync::mpsc::channel();
    let (read, reads) = std::sync::mpsc::channel();
    let mut client = Client::connect(Kind::Pipes, move |protocol, shutdown| async move {
        let ends = transport::Ends::default();
        let transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
        let notices = transport.notices();
        let telling = async move {
            for round in 0..2 {
                // Each has its chance to be written before the next.
                let mut count = 0;
                while count < MANY && notices.send(notice(count)) {
                    count += 1;
                    tokio::task::yield_now().await;
                }
                sent.send(count).unwrap();
                while round == 0 && reads.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        let double = Double {
            eof: ends.eof.clone(),
            seen: Arc::default(),
        };
        tokio::spawn(telling);
        run(double, transport, ends, &shutdown).await
    });
    let count = taken.recv().unwrap();
    assert!((60..MANY).contains(&count), "{count} were sent");
    for number in 0..count {
        let notice = client.receive();
        assert_eq!(notice["method"], "notifications/progress");
        assert_eq!(notice["params"]["progress"], number as f64);
    }
    read.send(()).unwrap();
    assert!(
        taken.recv().unwrap() > 0,
        "it reads again and is told again"
    );
    // An answer isn't held back with them.
    client.ping(1);
    while client.receive()["id"] != 1 {}
    assert_eq!(client.close(), Ended::InputEnded);
}
