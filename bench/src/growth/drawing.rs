//! The growth curves as a drawing: how many times slower than the base each point is.

use super::report::Row;
use crate::svg::{Anchor, Drawing};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Room around the axes: left, right, above, below.
const ROOM: (f64, f64, f64, f64) = (50.0, 20.0, 46.0, 84.0);
const COLOURS: [&str; 4] = ["#0b6e4f", "#b4530a", "#2b4c9b", "#8a2d7c"];
/// Doublings shown at least on both sides of the base.
const LEAST: f64 = 1.0;

/// A panel for each axis and engine, a curve for each verb.
pub(crate) fn draw(rows: &[Row]) -> String {
    let mut panels: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match panels.iter_mut().find(|p| p[0].axis == row.axis && p[0].engine == row.engine) {
            Some(panel) => panel.push(row),
            None => panels.push(vec![row]),
        }
    }
    let lines = panels.len().div_ceil(2).max(1) as f64;
    let mut drawing = Drawing::new(WIDTH * 2.0, 40.0 + HEIGHT * lines);
    let title = "Times slower than the base measured in turn with it (1 = flat; wake: times longer)";
    drawing.text((20.0, 28.0), 17.0, Anchor::Start, title);
    for (index, panel) in panels.iter().enumerate() {
        let corner = (WIDTH * (index % 2) as f64, 40.0 + HEIGHT * (index / 2) as f64);
        draw_panel(&mut drawing, panel, corner);
    }
    drawing.finish()
}

fn different<'r>(panel: &[&'r Row], name: fn(&'r Row) -> &'r str) -> Vec<&'r str> {
    let mut names = Vec::new();
    panel.iter().map(|row| name(row)).for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    names
}

fn draw_panel(drawing: &mut Drawing, panel: &[&Row], (x, y): (f64, f64)) {
    let (left, right) = (x + ROOM.0, x + WIDTH - ROOM.1);
    let (top, bottom) = (y + ROOM.2, y + HEIGHT - ROOM.3);
    let (points, verbs) = (different(panel, |row| &row.point), different(panel, |row| row.verb));
    let doublings = |row: &Row| row.slower().clamp(0.001, 1000.0).log2();
    let reach = panel.iter().map(|row| doublings(row).abs().ceil()).fold(LEAST, f64::max);
    let across = |place: usize| left + (right - left) * (place as f64 + 0.5) / points.len() as f64;
    let up = |doublings: f64| bottom - (bottom - top) * (doublings + reach) / (2.0 * reach);
    let title = format!("{:?}, {} (base {})", panel[0].axis, panel[0].engine, panel[0].base_point);
    drawing.text((left, y + 30.0), 14.0, Anchor::Start, &title);
    for step in -reach as i32..=reach as i32 {
        let at = up(f64::from(step));
        drawing.line((left, at), (right, at), if step == 0 { "#666" } else { "#ddd" });
        drawing.text((left - 6.0, at + 4.0), 10.0, Anchor::End, &format!("{}", 2f64.powi(step)));
    }
    for (place, point) in points.iter().enumerate() {
        drawing.text((across(place), bottom + 16.0), 11.0, Anchor::Middle, point);
    }
    for (number, (verb, colour)) in verbs.iter().zip(COLOURS).enumerate() {
        let place = |row: &&&Row| points.iter().position(|point| *point == row.point);
        let of_verb = panel.iter().filter(|row| row.verb == *verb);
        let curve: Vec<_> =
            of_verb.filter_map(|row| Some((across(place(&row)?), up(doublings(row))))).collect();
        drawing.curve(&curve, colour);
        let at = (left + 200.0 * (number % 2) as f64, bottom + 36.0 + 16.0 * (number / 2) as f64);
        drawing.bar((at.0, at.1 - 8.0), (10.0, 8.0), colour);
        drawing.text((at.0 + 16.0, at.1), 11.0, Anchor::Start, verb);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    #[test]
    fn every_row_is_a_point_of_its_panel() {
        let mut rows = vec![row(&[100], &[50]), row(&[100], &[400]), row(&[100], &[100])];
        rows[1].point = "100,000".to_owned();
        rows[2].engine = "postgres";
        let drawing = draw(&rows);
        assert_eq!(drawing.matches("<circle").count(), 3);
        assert!(drawing.contains("Lanes, embedded (base 10)") && drawing.contains("Lanes, postgres"));
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_an_empty_sheet() {
        assert!(draw(&[]).starts_with("<svg "));
    }
}
