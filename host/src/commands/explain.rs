//! `ge explain CODE`: shows the page of an error code.
use crate::Result;
use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json};
use clap::Args;
use ge_codes::{ATC, exit_code, pages};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge explain GE-E0207")]
pub struct ExplainArgs {
    /// A code as errors show it, atc's too; the number alone is enough
    code: String,
}

/// Runs the command.
pub fn run(global: &Global, a: &ExplainArgs) -> Result<u8> {
    let asked = a.code.trim().to_uppercase();
    // Errors show atc's own codes beside ours.
    let ours = ATC.iter().find(|(atc, _)| *atc == asked).map(|(_, ours)| ours.text().to_owned());
    let asked = ours.unwrap_or(asked);
    let digits: String = asked.trim_start_matches("GE-").trim_start_matches('E').to_owned();
    let number = digits.parse::<u16>().ok();
    let page = pages().find(|p| number.is_some() && p.code.text()[4..].parse::<u16>().ok() == number);
    let Some(p) = page else {
        return Err(crate::options::unknown_name("code", &asked, pages().map(|p| p.code.text())));
    };
    let (code, exit) = (p.code.text(), exit_code(p.code.kind()));
    if global.json {
        print_json(
            &serde_json::json!({"schema": 1, "code": code, "exit": exit, "title": p.title, "text": p.text, "remedy": p.remedy, "example": p.example}),
        )?;
    } else {
        let example: Vec<String> = p.example.lines().map(|l| format!("  {l}")).collect();
        print(&format!(
            "{code}: {}\n\n{}\n\nWhat to do:\n  {}\n\nExample:\n{}\n\nExit code: {exit}\n",
            p.title,
            p.text,
            p.remedy,
            example.join("\n")
        ))?;
    }
    Ok(0)
}
