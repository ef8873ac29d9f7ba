//! Charts as SVG: panels of lines, and dots by row.
//!
//! There is no background, and every colour stands out from a white page (3.4 to 1 at least) as well as from a dark one,
//! so a chart need not know where it is shown.

use std::fmt::Write;

const TEXT: &str = "#747c87";
const GRID: &str = "#80808040";
const BASE: &str = "#7d8590";
const BLUE: &str = "#3b82f6";
const ORANGE: &str = "#d2700a";

/// Who a line or dot belongs to, and with that how it's drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Bare,
    BareLarge,
    Uring,
    Epoll,
}

impl Who {
    pub fn title(self) -> &'static str {
        match self {
            Who::Bare => "bare read(2)",
            Who::BareLarge => "bare, 256 KiB pipe",
            Who::Uring => "io_uring",
            Who::Epoll => "epoll",
        }
    }

    /// Name in the record.
    pub fn contender(self) -> &'static str {
        match self {
            Who::Bare => "bare",
            Who::BareLarge => "bare 256K",
            Who::Uring => "uring",
            Who::Epoll => "epoll",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Who::Bare | Who::BareLarge => BASE,
            Who::Uring => BLUE,
            Who::Epoll => ORANGE,
        }
    }

    fn mark(self, x: f64, y: f64) -> String {
        let colour = self.colour();
        match self {
            Who::Bare => format!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="none" stroke="{colour}" stroke-width="1.8"/>"#
            ),
            Who::BareLarge => {
                let (left, top) = (x - 3.8, y - 3.8);
                format!(
                    r#"<rect x="{left:.1}" y="{top:.1}" width="7.6" height="7.6" fill="none" stroke="{colour}" stroke-width="1.8"/>"#
                )
            }
            Who::Uring => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.4" fill="{colour}"/>"#),
            Who::Epoll => format!(
                r#"<path d="M{x:.1} {:.1}l5.2 5.2l-5.2 5.2l-5.2 -5.2z" fill="{colour}"/>"#,
                y - 5.2
            ),
        }
    }
}

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// From the smallest value on.
    Log,
}

impl Scale {
    /// Where `value` stands between `low` (0) and `high` (1).
    fn place(self, value: f64, low: f64, high: f64) -> f64 {
        match self {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log => (value / low).ln() / (high / low).ln(),
        }
    }
}

/// A chart of lines. The y axis begins at zero.
pub struct Panel {
    /// What the y axis shows, with its unit.
    pub y: &'static str,
    /// What the x axis shows, with its unit.
    pub x: &'static str,
    pub x_scale: Scale,
    /// Where the x axis has a mark, and what stands there.
    pub ticks: Vec<(f64, String)>,
    pub lines: Vec<(Who, Vec<(f64, f64)>)>,
}

const PANEL: (f64, f64) = (430.0, 252.0);
const LEFT: f64 = 50.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Panels beside and below each other.
pub fn figure(name: &str, panels: &[Panel], columns: usize) -> String {
    let rows = panels.len().div_ceil(columns);
    let mut svg = head(name, PANEL.0 * columns as f64, PANEL.1 * rows as f64);
    for (index, panel) in panels.iter().enumerate() {
        let x = PANEL.0 * (index % columns) as f64;
        let y = PANEL.1 * (index / columns) as f64;
        writeln!(svg, r#"<g transform="translate({x} {y})">"#).expect("a string");
        panel.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

impl Panel {
    fn draw(&self, svg: &mut String) {
        let (width, height) = (PANEL.0 - LEFT - RIGHT, PANEL.1 - TOP - BOTTOM);
        let values = self.lines.iter().flat_map(|(_, points)| points.iter());
        let most = values.map(|point| point.1).fold(0.0, f64::max);
        let marks = even(most);
        let high = marks[marks.len() - 1];
        let y = |value: f64| TOP + height * (1.0 - value / high);
        let (first, last) = (self.ticks[0].0, self.ticks[self.ticks.len() - 1].0);
        let x = |value| LEFT + width * self.x_scale.place(value, first, last);

        text(svg, (LEFT - 40.0, 18.0), "start", "h", self.y);
        for &mark in &marks {
            let (at, right) = (y(mark), LEFT + width);
            writeln!(svg, r#"<path d="M{LEFT} {at:.1}H{right}" class="g"/>"#).expect("a string");
            let label = on_axis(mark, &marks);
            text(svg, (LEFT - 8.0, at + 4.5), "end", "", &label);
        }
        for (value, label) in &self.ticks {
            text(svg, (x(*value), TOP + height + 18.0), "middle", "", label);
        }
        let middle = LEFT + width / 2.0;
        text(svg, (middle, TOP + height + 38.0), "middle", "", self.x);

        let mut ends: Vec<(f64, Who)> = Vec::new();
        for (who, points) in &self.lines {
            let path: Vec<String> = points
                .iter()
                .map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1)))
                .collect();
            writeln!(
                svg,
                r#"<path d="M{}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round"/>"#,
                path.join("L"),
                who.colour()
            )
            .expect("a string");
            if points.len() <= 10 {
                for point in points {
                    svg.push_str(&who.mark(x(point.0), y(point.1)));
                    svg.push('\n');
                }
            }
            if let Some(end) = points.last() {
                ends.push((y(end.1), *who));
            }
        }
        for (at, who) in apart(ends, 17.0) {
            let place = (LEFT + width + 10.0, at + 4.5);
            coloured(svg, place, who.colour(), who.title());
        }
    }
}

/// Moves labels that would overlap away from each other, as little as needed.
fn apart(mut labels: Vec<(f64, Who)>, distance: f64) -> Vec<(f64, Who)> {
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    for _ in 0..labels.len() {
        for index in 1..labels.len() {
            let missing = distance - (labels[index].0 - labels[index - 1].0);
            if missing > 0.0 {
                labels[index - 1].0 -= missing / 2.0;
                labels[index].0 += missing / 2.0;
            }
        }
    }
    labels
}

/// Zero and three to six round numbers above it, the last not below `most`.
fn even(most: f64) -> Vec<f64> {
    let power = 10_f64.powf(most.log10().floor());
    let step = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| (most / step).ceil() <= 5.0)
        .unwrap_or(power);
    let count = (most / step).ceil() as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// 1, 2, 5, 10 and so on, from below `least` to above `most`.
fn steps(least: f64, most: f64) -> Vec<f64> {
    let from = least.log10().floor() as i32;
    let to = most.log10().ceil() as i32;
    let all = (from..=to).flat_map(|power| [1.0, 2.0, 5.0].map(|part| part * 10_f64.powi(power)));
    let all: Vec<f64> = all.collect();
    let first = all.iter().rposition(|mark| *mark <= least).unwrap_or(0);
    let last = all.iter().position(|mark| *mark >= most);
    all[first..=last.unwrap_or(all.len() - 1)].to_vec()
}

/// As many decimals as the axis needs.
fn on_axis(mark: f64, marks: &[f64]) -> String {
    let decimals = (0..3).find(|decimals| {
        let power = 10_f64.powi(*decimals);
        marks
            .iter()
            .all(|mark| ((mark * power).round() - mark * power).abs() < 1e-6)
    });
    format!("{mark:.*}", decimals.unwrap_or(3) as usize)
}

/// A row for each work, a mark for each contender, on a logarithmic axis.
pub struct Dots {
    /// What the x axis shows, with its unit.
    pub x: &'static str,
    pub rows: Vec<(String, Vec<(Who, f64)>)>,
}

impl Dots {
    pub fn figure(&self, name: &str) -> String {
        const ROW: f64 = 27.0;
        const LABELS: f64 = 238.0;
        const WIDTH: f64 = 860.0;
        const HEAD: f64 = 52.0;
        let values = || {
            self.rows
                .iter()
                .flat_map(|(_, dots)| dots.iter().map(|dot| dot.1))
        };
        let marks = steps(
            values().fold(f64::MAX, f64::min),
            values().fold(0.0, f64::max),
        );
        let (least, high) = (marks[0], marks[marks.len() - 1]);
        let bottom = HEAD + ROW * self.rows.len() as f64;
        let x = |value| LABELS + (WIDTH - LABELS - 24.0) * Scale::Log.place(value, least, high);

        let mut svg = head(name, WIDTH, bottom + 52.0);
        let mut left = LABELS;
        for who in [Who::Bare, Who::BareLarge, Who::Uring, Who::Epoll] {
            svg.push_str(&who.mark(left + 5.0, 18.0));
            coloured(&mut svg, (left + 17.0, 22.5), who.colour(), who.title());
            left += 44.0 + 7.4 * who.title().len() as f64;
        }
        for &mark in &marks {
            let at = x(mark);
            writeln!(
                svg,
                r#"<path d="M{at:.1} {}V{bottom}" class="g"/>"#,
                HEAD - 12.0
            )
            .expect("a string");
            text(
                &mut svg,
                (at, bottom + 18.0),
                "middle",
                "",
                &format!("{mark}"),
            );
        }
        text(
            &mut svg,
            (f64::midpoint(x(least), x(high)), bottom + 40.0),
            "middle",
            "",
            self.x,
        );
        for (index, (work, dots)) in self.rows.iter().enumerate() {
            let y = HEAD + ROW * (index as f64 + 0.4);
            text(&mut svg, (LABELS - 14.0, y + 4.5), "end", "", work);
            let ends = dots.iter().map(|dot| dot.1);
            let (low, high) = (ends.clone().fold(high, f64::min), ends.fold(0.0, f64::max));
            writeln!(
                svg,
                r#"<path d="M{:.1} {y:.1}H{:.1}" class="g" stroke-width="2"/>"#,
                x(low),
                x(high)
            )
            .expect("a string");
            for &(who, value) in dots {
                svg.push_str(&who.mark(x(value), y));
                svg.push('\n');
            }
        }
        svg + "</svg>\n"
    }
}

fn head(name: &str, width: f64, height: f64) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{name}">
<title>{name}</title>
<style>text{{font:13px system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;fill:{TEXT}}}.h{{font-size:14px;font-weight:600}}.g{{stroke:{GRID};fill:none}}</style>
"#
    )
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, class: &str, words: &str) {
    let class = match class {
        "" => String::new(),
        class => format!(r#" class="{class}""#),
    };
    let (x, y) = at;
    writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{class}>{}</text>"#,
        words.replace('&', "&amp;").replace('<', "&lt;")
    )
    .expect("a string");
}

fn coloured(svg: &mut String, at: (f64, f64), colour: &str, words: &str) {
    let (x, y) = at;
    writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" style="fill:{colour}">{words}</text>"#
    )
    .expect("a string");
}
