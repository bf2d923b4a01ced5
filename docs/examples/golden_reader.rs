// Hold angles in float32 to a golden file of posenc: golden_reader FILE
// With serde_json 1 and sha2 0.10; golden_reader.swift says the same line by line.
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
type Failing<T> = Result<T, Box<dyn std::error::Error>>;
const PLACE: [&str; 8] =
    ["check", "part", "state", "length", "case", "position", "positions", "q_positions"];

fn must(holds: bool, otherwise: &str) -> Failing<()> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

// The records in the bytes of a file, which must be whole.
fn records_of(data: &[u8]) -> Failing<Vec<Value>> {
    let mut contract: Value = serde_json::from_slice(data)?;
    must(contract["format"] == "posenc contract", "no golden file")?;
    must(contract["version"] == 1 || contract["version"] == 2, "not version 1 or 2")?;
    let records: Vec<Value> = serde_json::from_value(contract["checks"].take())?;
    if contract["version"] == 2 {
        must(data.len() > 79, "cut: it has no end")?;
        let (body, end) = data.split_at(data.len() - 79);
        let digest = format!("\"sha256\": \"{:x}\"\n}}\n", Sha256::digest(body));
        must(end == digest.as_bytes(), "cut or changed: another digest")?;
        must(contract["records"] == records.len(), "another count of records")?;
    }
    let place = |check: &Value| PLACE.map(|key| check[key].to_string()).join("\n");
    let places: HashSet<String> = records.iter().map(place).collect();
    must(places.len() == records.len(), "a record stands twice")?;
    Ok(records)
}

fn number(check: &Value, key: &str) -> Failing<f64> {
    check[key].as_f64().ok_or(format!("no number {key}").into())
}

fn numbers(check: &Value, key: &str) -> Failing<Vec<f64>> {
    let list = check[key].as_array().ok_or(format!("no list {key}"))?;
    list.iter().map(|item| item.as_f64().ok_or("no number where one stands".into())).collect()
}

// Numbers below a size, one for each pair.
fn indices(check: &Value, key: &str, pairs: usize, size: usize) -> Failing<Vec<usize>> {
    let found = numbers(check, key)?;
    let inside = |value: &f64| *value >= 0.0 && *value < size as f64 && value.fract() == 0.0;
    must(found.len() == pairs && found.iter().all(inside), "an index outside its array")?;
    Ok(found.iter().map(|value| *value as usize).collect())
}

// A tolerance of the file, which may not be wider than the rule of docs/golden.md.
fn bounded(check: &Value, key: &str, most: f64) -> Failing<f64> {
    let stated = number(check, key)?;
    must(stated >= 0.0 && stated <= most * 1.001, "a tolerance that is wider than its rule")?;
    Ok(stated)
}

// How many arrays of a record of angles are off, each told, of the three that are compared.
fn differences(check: &Value, known: &Value) -> Failing<usize> {
    let alike = check["part"] == known["part"] && check["state"] == known["state"];
    must(alike, "angles without their frequencies")?;
    let (f, exact) = (numbers(known, "frequencies_float32")?, numbers(known, "frequencies")?);
    let (x, position) = (numbers(known, "query")?, numbers(check, "position")?);
    must(!f.is_empty() && f.len() == exact.len(), "not one frequency for each pair")?;
    let axis = indices(known, "axis", f.len(), position.len())?;
    let channels = |key| indices(known, key, f.len(), x.len());
    let (first, second) = (channels("first")?, channels("second")?);
    let (first_out, second_out) = (channels("first_out")?, channels("second_out")?);
    let factor = number(known, "attention_factor")? as f32;
    let (start, sign) = (number(known, "start")? as f32, number(known, "sign")? as f32);
    let (mut cos, mut sin, mut turned) = (vec![], vec![], vec![0.0; x.len()]);
    let (mut size, mut wrong, unit, m) = (0.0, 0, 2f64.powi(-24), f64::from(factor.abs()));
    for j in 0..f.len() {
        let angle = (position[axis[j]] as f32 + start) * f[j] as f32;
        let (c, s) = (factor * angle.cos(), factor * angle.sin());
        let (a, b) = (x[first[j]] as f32, x[second[j]] as f32);
        turned[first_out[j]] = f64::from(a * c - sign * b * s);
        turned[second_out[j]] = f64::from(b * c + sign * a * s);
        cos.push(f64::from(c));
        sin.push(f64::from(s));
        let logarithm = if exact[j] == 0.0 { 0.0 } else { exact[j].abs().ln().abs() };
        size = f64::max(size, f64::from(angle.abs()) * (4.0 + logarithm) + 2.0);
    }
    let bound = bounded(check, "tolerance_float32", m * unit * size)?;
    let after = bounded(check, "rotated_tolerance_float32", 2.0 * m * unit * (size + 3.0))?;
    let arrays = [("cos", &cos, bound), ("sin", &sin, bound), ("rotated_query", &turned, after)];
    for (name, mine, most) in arrays {
        let expected = numbers(check, name)?;
        must(expected.len() == mine.len(), "another number of values")?;
        let mut apart = (0..mine.len()).map(|i| (mine[i] - expected[i]).abs());
        if let Some(off) = apart.find(|off| off.is_nan() || *off > most) {
            println!("{name} at position {} is off by {off}, allowed {most}", position[0]);
            wrong += 1;
        }
    }
    Ok(wrong)
}

// Whether anything is off, or nothing was compared.
fn differs(path: &str) -> Failing<bool> {
    let (mut compared, mut wrong, mut known) = (0, 0, Value::Null);
    for check in records_of(&std::fs::read(path)?)? {
        if check["check"] == "angles" && !check["cos"].is_null() {
            wrong += differences(&check, &known)?;
            compared += 3;
        } else if check["check"] == "frequencies" {
            known = check; // of the records of angles that follow
        }
    }
    println!("{compared} arrays compared, {wrong} differ");
    Ok(wrong > 0 || compared == 0)
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    let failed = differs(&path).unwrap_or_else(|why| {
        eprintln!("{path}: no golden file that is whole: {why}");
        true
    });
    std::process::exit(i32::from(failed));
}
