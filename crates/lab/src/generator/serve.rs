//! The generator's side.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::task::{Ready, Recording, Refused, Task};
use crate::agent::serve_each;
use crate::run::{Arrival, Clients, Interrupt, Schedule};
use crate::target::open;

const STEPS_MAX: usize = 4;
const LINE_BYTES_MAX: u64 = 1 << 20;
/// A laboratory takes what was recorded at each interval of its step; one that is silent for longer is gone.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Serves as long as the listener accepts.
pub fn serve(listener: &TcpListener) {
    serve_each(listener, STEPS_MAX, converse);
}

/// Reads a line. `None`: the connection is at its end.
fn line(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

fn send(mut stream: &TcpStream, reply: &impl serde::Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_string(reply).map_err(std::io::Error::other)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

fn converse(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream);
    let Some(task) = line(&mut reader)? else { return Ok(()) };
    let refused = |error: String| send(stream, &Refused { error });
    let task: Task = match serde_json::from_str(&task) {
        Ok(task) => task,
        Err(error) => return refused(format!("no task: {error}")),
    };
    let workload = match task.workload() {
        Ok(workload) => workload,
        Err(error) => return refused(error),
    };
    let target = match open(&task.target, task.driver) {
        Ok(target) => target,
        Err(error) => return refused(error.to_string()),
    };
    let schedule = task.rate.as_ref().map(|(ramp, is_poisson)| {
        let arrival = if *is_poisson { Arrival::Poisson } else { Arrival::Constant };
        Schedule::new(ramp.clone(), arrival, task.seed ^ task.numbers.start as u64, Instant::now())
    });
    let clients = Clients::connect(&*target, &*workload, task.numbers.clone(), task.of);
    let clients = match clients {
        Ok(clients) => clients,
        Err(error) => return refused(error.to_string()),
    };
    let interrupt = Interrupt::default();
    std::thread::scope(|scope| {
        let running = match clients.start(scope, schedule.as_ref(), task.seed, task.connections_per_thread, &interrupt)
        {
            Ok(running) => running,
            Err(error) => return refused(error.to_string()),
        };
        let served = (|| {
            send(stream, &Ready { ready: true })?;
            while line(&mut reader)?.is_some_and(|request| request == "take") {
                let backlog = schedule.as_ref().map(|schedule| schedule.backlog(Instant::now()));
                send(stream, &Recording::of(&running.drain(), backlog)?)?;
            }
            Ok(())
        })();
        // a client that failed has said so in its errors
        let _ = running.end();
        served
    })
}
