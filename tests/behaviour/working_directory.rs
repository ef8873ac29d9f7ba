//! Where a client may start: inside the roots, after every link is followed, whatever is swapped meanwhile.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::common::{Owner, Server, Session};

use serde_json::json;

/// Where `/bin/pwd -P`, approved as `pwd`, finds itself when started there; the code when it isn't started.
fn lands_in(server: &Server, cwd: &str) -> Result<String, String> {
    let body = server.call("terminal_start", json!({"command_id": "pwd", "cwd": cwd}));
    if body["ok"] == false {
        return Err(body["error"]["code"].as_str().expect("a code").to_owned());
    }
    let output = Session::of(server, body).read_all();
    Ok(output.stdout.trim_end_matches('\n').to_owned())
}

fn pwd() -> Owner {
    // Starts are made faster than sessions expire, so keep room for the records of them all.
    Owner::new()
        .argv("pwd", &["/bin/pwd", "-P"])
        .set("max_records", 1024)
        .set("buffer_records", 2048)
        .set("buffer_bytes", 65536)
}
#[test]
fn a_sibling_with_the_same_prefix_is_outside_the_root() {
    let owner = pwd();
    let root = owner.root();
    fs::create_dir(root.join("sub")).expect("a directory");
    fs::create_dir(owner.base().join("root-evil")).expect("a directory");
    let root = root.to_str().expect("UTF-8").to_owned();
    let server = owner.serve();
    assert_eq!(
        lands_in(&server, &format!("{root}-evil")),
        Err("CWD_NOT_ALLOWED".into())
    );
    for spelling in ["", "/", "/sub/..", "//", "/./sub/../"] {
        assert_eq!(
            lands_in(&server, &format!("{root}{spelling}")),
            Ok(root.clone()),
            "{spelling:?}"
        );
    }
    assert_eq!(
        lands_in(&server, &format!("{root}/sub")),
        Ok(format!("{root}/sub"))
    );
    server.finish();
}

#[test]
fn symbolic_links_are_judged_by_where_they_lead() {
    let owner = pwd();
    let root = owner.root();
    fs::create_dir(root.join("sub")).expect("a directory");
    symlink("/etc", root.join("out")).expect("a link");
    symlink(root.join("sub"), root.join("in")).expect("a link");
    symlink(&root, owner.base().join("way-in")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    let base = owner.base().to_str().expect("UTF-8").to_owned();
    let server = owner.serve();
    assert_eq!(
        lands_in(&server, &format!("{base}/root/out")),
        Err("CWD_NOT_ALLOWED".into())
    );
    assert_eq!(
        lands_in(&server, &format!("{base}/root/loop")),
        Err("CWD_NOT_ALLOWED".into())
    );
    assert_eq!(
        lands_in(&server, &format!("{base}/root/in")),
        Ok(format!("{base}/root/sub"))
    );
    assert_eq!(
        lands_in(&server, &format!("{base}/way-in/sub")),
        Ok(format!("{base}/root/sub"))
    );
    server.finish();
}

#[test]
fn a_root_may_itself_be_a_symbolic_link() {
    let owner = pwd();
    symlink(owner.root(), owner.base().join("alias")).expect("a link");
    let alias = owner
        .base()
        .join("alias")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let real = owner.root().to_str().expect("UTF-8").to_owned();
    let server = owner
        .set("allowed_roots", json!([alias]))
        .set("default_cwd", alias.as_str())
        .serve();
    assert_eq!(lands_in(&server, &alias), Ok(real.clone()));
    assert_eq!(lands_in(&server, &real), Ok(real));
    server.finish();
}

#[test]
fn bad_working_directories_are_refused() {
    let owner = pwd();
    let root = owner.root();
    fs::write(root.join("file"), "").expect("a file");
    fs::create_dir(owner.base().join("outside")).expect("a directory");
    symlink(owner.base().join("outside"), root.join("link")).expect("a link");
    let root = root.to_str().expect("UTF-8").to_owned();
    let server = owner.serve();
    let long = format!("{root}/{}", "d".repeat(5000));
    for cwd in [
        "sub",
        ".",
        "..",
        &format!("{root}/.."),
        &format!("{root}/../"),
        &format!("{root}/link"),
        &format!("{root}/link/missing"),
        &format!("{root}/missing"),
        &format!("{root}/file"),
        &long,
    ] {
        assert_eq!(
            lands_in(&server, cwd),
            Err("CWD_NOT_ALLOWED".into()),
            "{cwd:?}"
        );
    }
    for cwd in ["", &format!("{root}\u{0}/etc")] {
        let code = lands_in(&server, cwd).expect_err("no such directory");
        assert!(
            matches!(&*code, "CWD_NOT_ALLOWED" | "INVALID_ARGUMENT"),
            "{cwd:?}: {code}"
        );
    }
    let error = server.refused(
        "terminal_start",
        json!({"command_id": "pwd", "cwd": format!("{root}/missing")}),
    );
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("cwd"), "the argument is named: {message}");
    assert!(
        !message.contains(&root),
        "no path of the machine: {message}"
    );
    for absent in ["root/missing", "outside/missing", "root/sub"] {
        assert!(!server.owner.base().join(absent).exists(), "{absent}");
    }
    server.finish();
}

#[test]
fn defaults_for_the_working_directory_come_from_the_profile_then_the_config() {
    let owner = Owner::new();
    let root = owner.root();
    for name in ["general", "special", "asked"] {
        fs::create_dir(root.join(name)).expect("a directory");
    }
    let at = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    let server = owner
        .set("default_cwd", at("general"))
        .argv("plain", &["/bin/pwd", "-P"])
        .profile(
            "own",
            json!({"argv": ["/bin/pwd", "-P"], "allowed_env": [], "cwd": at("special")}),
        )
        .serve();
    let lands = |id: &str| server.start(id).read_all().stdout.trim_end().to_owned();
    assert_eq!(lands("plain"), at("general"));
    assert_eq!(lands("own"), at("special"));
    let asked = server.start_with(json!({"command_id": "own", "cwd": at("asked")}));
    assert_eq!(asked.read_all().stdout.trim_end(), at("asked"));
    server.finish();
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_outside() {
    let owner = pwd();
    let root = owner.root();
    let (sub, parked) = (root.join("sub"), root.join("parked"));
    fs::create_dir(&sub).expect("a directory");
    let inside = root.to_str().expect("UTF-8").to_owned();
    let server = owner.serve();
    let done = AtomicBool::new(false);
    let (mut started, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(&sub, &parked).expect("only this thread renames");
                symlink("/etc", &sub).expect("the name is free");
                thread::yield_now();
                fs::remove_file(&sub).expect("only this thread links");
                fs::rename(&parked, &sub).expect("only this thread renames");
                thread::yield_now();
            }
        });
        let asked = sub.to_str().expect("UTF-8");
        for _ in 0..600 {
            match lands_in(&server, asked) {
                Ok(landed) => {
                    assert!(landed.starts_with(&inside), "landed in {landed}");
                    started += 1;
                }
                Err(code) => {
                    assert_eq!(code, "CWD_NOT_ALLOWED");
                    refused += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(started + refused, 600);
    assert!(started > 0, "the race was never won by the client");
    server.finish();
}
