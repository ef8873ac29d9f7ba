//! Writes to pipes.

use std::{fs::File, io::Read as _};

use bytes::Bytes;

use super::*;

#[test]
fn a_write_counts_exactly_what_the_pipe_took() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, Channel::Pipe, write).unwrap();
        let stop = Stop::new();
        let data = Bytes::from(pattern(1 << 20));
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(read).read_to_end(&mut all).unwrap();
            all
        });
        let mut rest = data.clone();
        while !rest.is_empty() {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => {
                    assert!(n > 0);
                    rest = rest.slice(n..);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sink.write(Bytes::new(), &stop).await, Write::Accepted(0));
        drop(sink);
        assert!(reader.join().unwrap() == data);
    });
}

#[test]
fn a_full_pipe_stops_with_an_exact_count() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, Channel::Pipe, write).unwrap();
        let stop = Stop::new();
        let request = stop.clone();
        let mut rest = Bytes::from(pattern(1 << 20));
        let mut accepted = 0;
        // The other task runs for the first time when a write waits.
        let task = tokio::task::spawn_local(async move { request.request() });
        let end = loop {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => {
                    accepted += n;
                    rest = rest.slice(n..);
                }
                other => break other,
            }
        };
        task.await.unwrap();
        assert_eq!(end, Write::Stopped);
        drop(sink);
        let mut got = Vec::new();
        File::from(read).read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), accepted);
        assert!(got == pattern(accepted));
    });
}

#[test]
fn a_reader_that_goes_away_ends_a_blocked_write_and_later_ones() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, Channel::Pipe, write).unwrap();
        let stop = Stop::new();
        let closing = tokio::task::spawn_local({
            let full = fcntl(&read, FcntlArg::F_GETPIPE_SZ).unwrap();
            async move {
                // Only when nothing more fits is the write blocked for certain.
                let mut queued = 0;
                while queued < full {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    queued = unread(&read);
                }
                drop(read);
            }
        });
        let mut rest = Bytes::from(pattern(1 << 20));
        let end = loop {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => rest = rest.slice(n..),
                other => break other,
            }
        };
        closing.await.unwrap();
        assert_eq!(end, Write::Closed);
        assert_eq!(
            sink.write(Bytes::from_static(b"x"), &stop).await,
            Write::Closed
        );
    });
}

/// Bytes in the pipe.
fn unread(read: &OwnedFd) -> i32 {
    use std::os::fd::AsRawFd;
    let mut count = 0;
    // SAFETY: FIONREAD writes one int, to a local that outlives the call.
    let done = unsafe { libc::ioctl(read.as_raw_fd(), libc::FIONREAD, &mut count) };
    assert_eq!(done, 0);
    count
}
