//! A mock server, whose replies are the test's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_wire::{Command, Limits, Scratch, decode, frame_length};

/// Starts the server, which lives as long as the test. Returns its address.
pub(crate) fn start(answer: impl Fn(&Command<'_>) -> DocBuf + Send + Sync + 'static) -> String {
    start_over(|socket| socket, answer)
}

/// Like [`start`], but over the channel that `channel` makes of each socket.
pub(crate) fn start_over<S: Read + Write>(
    channel: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    answer: impl Fn(&Command<'_>) -> DocBuf + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let shared = Arc::new((channel, answer));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let shared = shared.clone();
            socket.set_nodelay(true).unwrap();
            std::thread::spawn(move || serve(shared.0(socket), &shared.1));
        }
    });
    address
}

fn serve(mut stream: impl Read + Write, answer: &impl Fn(&Command<'_>) -> DocBuf) {
    let (mut buffer, mut part, mut scratch) = (Vec::new(), vec![0; 1 << 16], Scratch::default());
    loop {
        while let Some(length) = frame_length(&buffer).unwrap().filter(|length| *length <= buffer.len()) {
            let command = decode(&buffer[..length], &mut scratch, Limits::default()).unwrap().into_command().unwrap();
            let mut out = Vec::new();
            command.reply_to.encode(1, answer(&command).as_doc(), &mut out);
            drop(command);
            if stream.write_all(&out).is_err() {
                return;
            }
            buffer.drain(..length);
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => buffer.extend_from_slice(&part[..n]),
            _ => return,
        }
    }
}
