//! Messages over real sockets, in whatever pieces they arrive.
//!
//! In:     a server that does one thing.
//! Out:    one test a promise.
//! Fails:  where a message is cut, joined with another, or waited for too long.

use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

const DEADLINE: Duration = Duration::from_secs(5);

/// A server that does one thing with its one connection.
fn server(work: impl FnOnce(TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, std::thread::spawn(move || work(listener.accept().unwrap().0)))
}

fn address(scheme: Scheme, port: u16) -> Address {
    Address { scheme, host: "127.0.0.1".to_owned(), port }
}

/// A frame as servers send them, without a mask.
fn unmasked(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = frame(head, payload);
    let mask_at = bytes.len() - payload.len() - 4;
    bytes.drain(mask_at..mask_at + 4);
    bytes[1] &= 0x7f;
    bytes
}

#[test]
fn addresses_are_written_as_they_are_read() {
    for text in ["tcp://127.0.0.1:50001", "ssl://a.b:1", "ws://[::1]:65535", "wss://host:50004"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for bad in ["", "tcp://", "tcp://host", "tcp://:5", "tcp://host:", "host:5", "http://host:5", "tcp://host:65536"] {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
}

#[test]
fn lines_are_told_apart_however_they_arrive() {
    let long = "x".repeat(600_000);
    let sent = long.clone();
    let (port, thread) = server(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        for piece in ["one\ntw", "o\n\nfour\n", &sent, "\nlast\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut wire = Wire::connect(&address(Scheme::Tcp, port), DEADLINE).unwrap();
    for want in ["one", "two", "", "four", &long, "last"] {
        assert_eq!(wire.receive().unwrap(), want.as_bytes());
    }
    thread.join().unwrap();
    assert_eq!(wire.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn silence_ends_at_the_deadline() {
    let (port, thread) = server(|mut stream| {
        stream.write_all(b"half a line").unwrap();
        let _ = stream.read(&mut [0; 8]);
    });
    let mut wire = Wire::connect(&address(Scheme::Tcp, port), Duration::from_millis(100)).unwrap();
    let before = Instant::now();
    assert_eq!(wire.receive().unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(before.elapsed() >= Duration::from_millis(100) && before.elapsed() < DEADLINE);
    drop(wire);
    thread.join().unwrap();
}

/// Reads one masked frame: its head and payload.
fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    assert!(head[1] & 0x80 != 0, "clients mask");
    let more = match head[1] & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mut digits = vec![0; more];
    stream.read_exact(&mut digits).unwrap();
    let long = digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit));
    let length = if more == 0 { usize::from(head[1] & 0x7f) } else { long };
    let mut rest = vec![0; 4 + length];
    stream.read_exact(&mut rest).unwrap();
    let (mask, payload) = rest.split_at(4);
    (head[0], payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect())
}

fn accept(stream: &mut TcpStream, answer: &str) {
    let mut opening = Vec::new();
    while !opening.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        opening.push(byte[0]);
    }
    stream.write_all(answer.as_bytes()).unwrap();
}

#[test]
fn websocket_messages_come_whole_and_pings_are_answered() {
    let big = vec![b'b'; 70_000];
    let sent = big.clone();
    let (port, thread) = server(move |mut stream| {
        accept(&mut stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(read_frame(&mut stream), (0x81, b"first".to_vec()));
        assert_eq!(read_frame(&mut stream), (0x81, vec![b'a'; 300]));
        stream.write_all(&unmasked(0x81, b"whole")).unwrap();
        stream.write_all(&unmasked(0x01, b"in ")).unwrap();
        stream.write_all(&unmasked(0x89, b"ping")).unwrap();
        stream.write_all(&unmasked(0x00, b"three ")).unwrap();
        stream.write_all(&unmasked(0x80, b"parts")).unwrap();
        assert_eq!(read_frame(&mut stream), (0x8a, b"ping".to_vec()));
        stream.write_all(&unmasked(0x82, &sent)).unwrap();
        stream.write_all(&unmasked(0x88, b"")).unwrap();
    });
    let mut wire = Wire::connect(&address(Scheme::Ws, port), DEADLINE).unwrap();
    wire.send(&format!("first\n{}", "a".repeat(300))).unwrap();
    for want in [&b"whole"[..], b"in three parts", &big] {
        assert_eq!(wire.receive().unwrap(), want);
    }
    assert_eq!(wire.receive().unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    thread.join().unwrap();
}

#[test]
fn what_opens_no_websocket_is_refused() {
    let (port, thread) = server(|mut stream| accept(&mut stream, "HTTP/1.1 404 Not Found\r\n\r\n"));
    let error = Wire::connect(&address(Scheme::Ws, port), DEADLINE).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    thread.join().unwrap();
}

#[test]
fn frames_have_limits() {
    let lengths = |bytes: &[u8]| frame_lengths(bytes).unwrap();
    assert_eq!([lengths(&[]), lengths(&[0x81]), lengths(&[0x81, 126, 1])], [None; 3]);
    assert_eq!(lengths(&[0x81, 5]), Some((2, 5)));
    assert_eq!(lengths(&[0x81, 126, 1, 2]), Some((4, 258)));
    assert_eq!(lengths(&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Some((10, 65_536)));
    assert!(frame_lengths(&[0x81, 0x85]).is_err());
    assert!(frame_lengths(&[0x81, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn newlines_are_found_at_the_end_and_in_the_middle() {
    for (text, want) in
        [("", None), ("abc", None), ("abc\n", Some(3)), ("a\nb", Some(1)), ("a\nb\n", Some(1)), ("\n", Some(0))]
    {
        assert_eq!(newline(text.as_bytes()), want, "{text:?}");
    }
}
