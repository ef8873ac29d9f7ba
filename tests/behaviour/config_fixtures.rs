//! Configs that load and configs that don't: each file in `fixtures/config/bad` is refused with exactly the findings
//! in the text file beside it.
//!
//! To write the text files anew after a wording changed: `SLUICEGATE_BLESS=1 cargo test --test config_fixtures`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sluicegate::config::{Config, Finding, Loaded, Severity};

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/config")
        .join(kind);
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    if let Err(lack) = sluicegate::contain::offered().files {
        eprintln!("SKIPPED: the fixtures of sandboxes: {lack}");
        paths.retain(|path| !path.to_string_lossy().contains("/sandbox"));
    }
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Not through `Config::load`: a checkout's file modes are those of the umask.
fn read(path: &Path) -> Result<Loaded, Vec<Finding>> {
    let name = Path::new(path.file_name().unwrap());
    Config::from_bytes(name, &fs::read(path).unwrap())
}

#[test]
fn every_good_config_loads() {
    for path in fixtures("good") {
        let loaded = read(&path).unwrap_or_else(|findings| panic!("{findings:#?}"));
        let warned = path.file_stem().unwrap() == "compact";
        assert_eq!(
            loaded.warnings.len(),
            usize::from(warned),
            "{:#?}",
            loaded.warnings
        );
    }
}

#[test]
fn what_a_config_says_comes_back_when_it_is_written_and_read() {
    for path in fixtures("good") {
        let config = read(&path).unwrap().config;
        let text = config.to_json().unwrap();
        let again = Config::from_bytes(&path, text.as_bytes()).unwrap();
        assert_eq!(again.config, config);
    }
}

#[test]
fn every_bad_config_is_refused_with_its_findings() {
    let bless = std::env::var_os("SLUICEGATE_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in fixtures("bad") {
        let findings = read(&path).expect_err(&format!("{} loads", path.display()));
        assert!(
            findings
                .iter()
                .any(|finding| finding.severity == Severity::Error)
        );
        let said: String = findings
            .iter()
            .map(|finding| format!("{finding}\n"))
            .collect();
        assert_eq!(
            said.lines().count(),
            findings.len(),
            "a finding is one line: {said}"
        );
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &said).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != said {
            wrong.push(format!("{}:\n{said}", expected.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
