//! Where scenes are shown: lines and checks on a screen, or nothing but the record of them.

use std::{
    io::{self, Write},
    time::Duration,
};

use anstyle::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};

use super::in_ms;
use crate::cli::screen::{BAD, GOOD, STRONG, Screen};

/// What the lines of a scene begin with.
const INDENT: &str = "   ";

pub(super) struct Stage<'a> {
    screen: Screen,
    /// Absent when nobody looks.
    out: Option<&'a mut dyn Write>,
    scenes: Vec<Scene>,
}

/// One scene and what came of it.
#[derive(Debug)]
struct Scene {
    name: &'static str,
    found: Map<String, Value>,
    checks: Vec<(String, bool)>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(screen: Screen, out: Option<&'a mut dyn Write>) -> Stage<'a> {
        Stage {
            screen,
            out,
            scenes: Vec::new(),
        }
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        match &mut self.out {
            Some(out) => writeln!(out, "{text}"),
            None => Ok(()),
        }
    }

    /// What a round begins with.
    pub(super) fn title(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = self.screen.paint(style, self.screen.wrapped("", "", text));
        self.show(&format!("{text}\n"))
    }

    /// Begins a scene.
    pub(super) fn scene(&mut self, name: &'static str, title: &str) -> io::Result<()> {
        self.scenes.push(Scene {
            name,
            found: Map::new(),
            checks: Vec::new(),
        });
        let head = format!("{}. ", self.scenes.len());
        let title = self.screen.wrapped(&head, INDENT, title);
        let title = self.screen.paint(STRONG, title);
        self.show(&title)
    }

    /// A line of the scene.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        let text = self.screen.wrapped(INDENT, "     ", text);
        self.show(&text)
    }

    /// A value for the record.
    pub(super) fn found(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(scene) = self.scenes.last_mut() {
            scene.found.insert(name.to_owned(), value.into());
        }
    }

    /// Something that must hold.
    pub(super) fn check(&mut self, what: &str, holds: bool) -> io::Result<()> {
        if let Some(scene) = self.scenes.last_mut() {
            scene.checks.push((what.to_owned(), holds));
        }
        let mark = if holds {
            self.screen.paint(GOOD, "ok  ")
        } else {
            self.screen.paint(BAD, "FAIL")
        };
        let head = format!("{INDENT}{mark}  ");
        let text = self.screen.wrapped(&head, "         ", what);
        self.show(&text)
    }

    /// A line that moves while something takes its time; nothing where lines can't.
    pub(super) fn progress(&self, length: Duration) -> ProgressBar {
        if self.out.is_none() || !self.screen.live() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template(&format!("{INDENT}{{bar:10}} {{wide_msg}}"));
        let target = ProgressDrawTarget::stdout();
        ProgressBar::with_draw_target(Some(in_ms(length)), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// The scenes since the last time, and whether all checks held.
    pub(super) fn take(&mut self) -> io::Result<(Vec<Value>, bool)> {
        self.show("")?;
        let scenes = std::mem::take(&mut self.scenes);
        let right = |scene: &Scene| scene.checks.iter().all(|(_, holds)| *holds);
        let all = scenes.iter().all(right);
        let told = scenes.into_iter().map(|scene| {
            let checks = scene.checks.iter();
            let checks = checks.map(|(what, holds)| json!({ "what": what, "holds": holds }));
            json!({
                "name": scene.name,
                "ok": right(&scene),
                "found": scene.found,
                "checks": checks.collect::<Vec<_>>(),
            })
        });
        Ok((told.collect(), all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_fails_is_shown_and_told() {
        let mut shown = Vec::new();
        let mut stage = Stage::new(Screen::plain(40), Some(&mut shown));
        stage.scene("one", "A scene").unwrap();
        stage.found("number", 1);
        stage.check("this holds", true).unwrap();
        stage
            .check("this doesn't, which takes more than one line to say", false)
            .unwrap();
        let (scenes, right) = stage.take().unwrap();
        assert!(!right);
        assert_eq!(scenes[0]["ok"], false);
        assert_eq!(scenes[0]["found"]["number"], 1);
        assert_eq!(scenes[0]["checks"][1]["holds"], false);
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.contains("   ok    this holds\n   FAIL  this doesn't"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.len() <= 40), "{shown}");
    }

    #[test]
    fn nothing_is_shown_where_nobody_looks() {
        let mut stage = Stage::new(Screen::plain(80), None);
        stage.scene("one", "A scene").unwrap();
        stage.check("this holds", true).unwrap();
        assert!(stage.progress(Duration::from_secs(1)).is_hidden());
        assert!(stage.take().unwrap().1);
    }
}
