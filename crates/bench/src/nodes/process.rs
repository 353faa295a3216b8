//! One program at work.
//!
//! In:     a command.
//! Out:    its process, what it took so far, its end.
//! Fails:  when it cannot be started, or has ended.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::measure::{self, Usage};
use crate::{BenchError, at};

/// Longest wait for anything a node is to do.
pub const PATIENCE: Duration = Duration::from_secs(1_800);

/// Longest wait for a program that was asked to end.
const ENDING: Duration = Duration::from_secs(60);

/// The command that runs a program, bound to one core where one is named (`taskset`, which becomes the program).
pub fn bound(program: &Path, core: Option<u32>) -> Command {
    let Some(core) = core else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// Keeps this process away from the core that nodes are bound to.
pub fn keep_off(core: u32, cores: usize) -> Result<(), BenchError> {
    let others: Vec<String> = (0..cores as u32).filter(|other| *other != core).map(|other| other.to_string()).collect();
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", &others.join(","), &std::process::id().to_string()]).stdout(Stdio::null());
    let status = command.status().map_err(at("taskset"))?;
    match status.success() && !others.is_empty() {
        true => Ok(()),
        false => Err(BenchError::Usage(format!("--core {core}: this kit cannot be kept off it"))),
    }
}

/// A running program, killed when it is dropped.
pub struct Process {
    name: String,
    child: Child,
    /// It was asked to end.
    is_asked: bool,
    /// When it was started.
    pub started: Instant,
}

impl Process {
    /// Starts it, without input; what it prints as an error is shown.
    pub fn start(name: &str, command: &mut Command) -> Result<Process, BenchError> {
        Process::start_into(name, command, Stdio::null())
    }

    /// The same, its output kept.
    pub fn start_into(name: &str, command: &mut Command, output: Stdio) -> Result<Process, BenchError> {
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(output).spawn();
        let child = child.map_err(at(command.get_program()))?;
        Ok(Process { name: name.to_owned(), child, is_asked: false, started })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended; one that ended with a failure is an error.
    pub fn is_running(&mut self) -> Result<bool, BenchError> {
        match self.child.try_wait().map_err(at(&self.name))? {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            // Asked with a signal, some end by it, and some say so in their exit code (143).
            Some(_) if self.is_asked => Ok(false),
            Some(status) => Err(self.failed(format!("ended: {status}"))),
        }
    }

    /// Asks it to end (SIGTERM); one that has ended is left alone.
    pub fn ask_to_end(&mut self) -> Result<(), BenchError> {
        if self.is_running()? {
            self.is_asked = true;
            Command::new("kill").args(["-TERM", &self.id().to_string()]).status().map_err(at("kill"))?;
        }
        Ok(())
    }

    /// What it took since its start, its children left out.
    pub fn usage(&self) -> Result<Usage, BenchError> {
        let usage = measure::of_process(self.child.id())?;
        Ok(Usage { wall_s: self.started.elapsed().as_secs_f64(), ..usage })
    }

    /// Memory it holds now, and the most it ever held, in bytes.
    pub fn memory_bytes(&self) -> Result<(u64, u64), BenchError> {
        measure::memory_of_process(self.child.id())
    }

    /// A failure of this program.
    pub fn failed(&self, text: impl Into<String>) -> BenchError {
        BenchError::Child { name: self.name.clone(), text: text.into() }
    }

    /// Asks it to end, and kills it where it has not within [`ENDING`].
    pub fn stop(mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let before = Instant::now();
        while asked.as_ref().is_ok_and(|status| status.success()) && before.elapsed() < ENDING {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Fails where it has ended.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().map_err(at(&self.name))? {
            Some(status) => Err(self.failed(format!("ended: {status}"))),
            None => Ok(()),
        }
    }

    /// Asks again and again, `pause` apart, until there is an answer.
    pub fn wait_for<R>(
        &mut self,
        what: &str,
        pause: Duration,
        mut ask: impl FnMut() -> Option<R>,
    ) -> Result<R, BenchError> {
        let before = Instant::now();
        while before.elapsed() < PATIENCE {
            self.check()?;
            if let Some(answer) = ask() {
                return Ok(answer);
            }
            std::thread::sleep(pause);
        }
        Err(self.failed(format!("{what}: not within {} s", PATIENCE.as_secs())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_seen_at_work_and_at_its_end() {
        let mut busy = Process::start("busy", Command::new("sh").args(["-c", "while :; do :; done"])).unwrap();
        let pause = Duration::from_millis(5);
        let used = |busy: &Process| busy.usage().unwrap().cpu_s();
        let mut seen = 0.0;
        while seen == 0.0 {
            busy.check().unwrap();
            std::thread::sleep(pause);
            seen = used(&busy);
        }
        assert!(busy.usage().unwrap().wall_s >= seen / 2.0);
        busy.ask_to_end().unwrap();
        while busy.is_running().unwrap() {
            std::thread::sleep(pause);
        }
        busy.ask_to_end().unwrap();
        let trap = "trap 'exit 143' TERM; while :; do sleep 0.01; done";
        let mut polite = Process::start("polite", Command::new("sh").args(["-c", trap])).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        polite.ask_to_end().unwrap();
        while polite.is_running().unwrap() {
            std::thread::sleep(pause);
        }
        let mut ended = Process::start("ended", &mut Command::new("false")).unwrap();
        let error = ended.wait_for("anything", pause, || None::<()>).unwrap_err().to_string();
        assert!(error.contains("contestant ended: ended: exit status: 1"), "{error}");
        assert!(Process::start("none", &mut Command::new("/nonexistent/program")).is_err());
    }
}
