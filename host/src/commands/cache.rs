//! `ge cache list | verify | prune DIR`: inspects and cleans a model cache.
use crate::Result;
use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json, say};
use crate::render::progress::group;
use crate::session::cache::{Cache, Entry, State};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Lists the entries of a model cache
    #[command(after_help = "Example:\n  ge cache list cache")]
    List(Folder),
    /// Verifies every entry: exit 0 if all are good, else 1
    #[command(after_help = "Example:\n  ge cache verify cache")]
    Verify(Folder),
    /// Removes damaged and old entries and leftovers, and the longest unused beyond a size
    #[command(after_help = "Example:\n  ge cache prune cache --max-bytes 1000000000")]
    Prune {
        #[command(flatten)]
        folder: Folder,
        /// Bytes that the entries may have together
        #[arg(long, value_name = "N")]
        max_bytes: Option<u64>,
    },
}

#[derive(Args, Debug)]
pub struct Folder {
    /// The folder that ge.graph_compiler_cache_dir names
    dir: PathBuf,
}

/// Runs the command.
pub fn run(global: &Global, c: &CacheCommand) -> Result<u8> {
    match c {
        CacheCommand::List(f) => {
            let entries = Cache::existing(&f.dir)?.entries();
            show(global, &entries)?;
            Ok(0)
        }
        CacheCommand::Verify(f) => {
            let entries = Cache::existing(&f.dir)?.entries();
            let bad: Vec<Entry> = entries.iter().filter(|e| matches!(e.state, State::Damaged(_))).cloned().collect();
            show(global, &entries)?;
            say(global, &format!("{} of {} entries are damaged", bad.len(), entries.len()));
            Ok(u8::from(!bad.is_empty()))
        }
        CacheCommand::Prune { folder, max_bytes } => {
            let gone = Cache::existing(&folder.dir)?.prune(*max_bytes)?;
            show(global, &gone)?;
            let bytes: u64 = gone.iter().map(|e| e.bytes).sum();
            say(global, &format!("removed {} entries, {} bytes", gone.len(), group(bytes)));
            Ok(0)
        }
    }
}

fn word(s: &State) -> String {
    match s {
        State::Good => "good".into(),
        State::Old => "of another version".into(),
        State::Damaged(why) => format!("damaged: {why}"),
        State::Leftover => "left by a process that ended".into(),
    }
}

fn show(global: &Global, entries: &[Entry]) -> Result<()> {
    let age = |e: &Entry| SystemTime::now().duration_since(e.used).map_or(0, |d| d.as_secs());
    if global.json {
        let list: Vec<_> = entries
            .iter()
            .map(|e| {
                serde_json::json!({"key": e.key, "model": e.model, "version": e.version, "bytes": e.bytes,
                    "unused_seconds": age(e), "state": word(&e.state), "good": e.state == State::Good})
            })
            .collect();
        return print_json(&serde_json::json!({"schema": 1, "entries": list}));
    }
    let mut text = String::new();
    for e in entries {
        let who = format!("{} {}", e.model, e.version);
        text.push_str(&format!("{}  {:>14} bytes  {:<24} {}\n", e.key, group(e.bytes), who.trim(), word(&e.state)));
    }
    print(&text)
}
