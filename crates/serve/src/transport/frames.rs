//! Frames of WebSocket: a client's read piece by piece, ours written.
//!
//! In:     bytes as they arrive; pieces of text to send.
//! Out:    [`Event`]s; frames.
//! Fails:  [`FrameError`] with the code that closes the connection.
//! Source: RFC 6455, sections 5 and 7.4.1. Extensions are never agreed on, so that the reserved bits are zero.

use std::collections::VecDeque;

use super::room::Room;

/// Bytes of a control frame's payload (section 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// Frames of one message; libraries cut at 4 KiB at least, which makes 256 of the longest message.
pub const FRAMES_OF_MESSAGE_MAX: u32 = 1024;

/// Closing codes (section 7.4.1).
pub mod code {
    /// All is done.
    pub const NORMAL: u16 = 1000;
    /// The server goes away.
    pub const GOING_AWAY: u16 = 1001;
    /// A frame is wrong.
    pub const PROTOCOL: u16 = 1002;
    /// What the server does not put up with.
    pub const POLICY: u16 = 1008;
    /// A message is too long.
    pub const TOO_BIG: u16 = 1009;
    /// A fault of the server.
    pub const FAULT: u16 = 1011;
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What a client's frames amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole message, text or binary.
    Message(Vec<u8>),
    /// Wants these bytes back.
    Ping(Vec<u8>),
    /// Closes, with its code where it says one.
    Close(Option<u16>),
}

/// A frame that ends the connection: the code, and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError(pub u16, pub &'static str);

/// The frame under way.
struct Frame {
    opcode: u8,
    is_last: bool,
    left: u64,
    mask: [u8; 4],
    read: usize,
}

/// Reads a client's frames.
pub struct FrameReader {
    room: Room,
    head: Vec<u8>,
    frame: Option<Frame>,
    /// The message under way, over its frames.
    message: Vec<u8>,
    /// Frames of it so far; zero between messages.
    frames: u32,
    control: Vec<u8>,
    events: VecDeque<Event>,
    /// The client has closed: what it sends behind that is not looked at.
    is_closed: bool,
}

impl FrameReader {
    /// Nothing read yet.
    pub fn new(room: Room) -> FrameReader {
        FrameReader {
            room,
            head: Vec::new(),
            frame: None,
            message: Vec::new(),
            frames: 0,
            control: Vec::new(),
            events: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), FrameError> {
        while !self.is_closed {
            if self.frame.is_none() && !self.take_head(&mut bytes)? {
                return Ok(());
            }
            if !self.take_payload(&mut bytes)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next event.
    pub fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// True while a frame or a message has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.frame.is_some() || self.frames > 0 || !self.head.is_empty()
    }

    /// Collects a frame's head; false where more must come.
    fn take_head(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        loop {
            let wanted = match self.head.get(1).map(|second| second & 0x7f) {
                None => 2,
                Some(126) => 8,
                Some(127) => 14,
                Some(_) => 6,
            };
            // Said at once, for who does not mask does not send a mask either.
            if self.head.get(1).is_some_and(|second| second & 0x80 == 0) {
                return Err(FrameError(code::PROTOCOL, "a client's frame is not masked"));
            }
            let missing = wanted - self.head.len();
            if missing == 0 {
                break;
            }
            let (now, later) = bytes.split_at(missing.min(bytes.len()));
            self.head.extend_from_slice(now);
            *bytes = later;
            if now.len() < missing {
                return Ok(false);
            }
        }
        let frame = parse_head(&self.head)?;
        self.head.clear();
        self.begin(&frame)?;
        self.frame = Some(frame);
        Ok(true)
    }

    /// Whether a frame may stand here, and its message be so long.
    fn begin(&mut self, frame: &Frame) -> Result<(), FrameError> {
        match frame.opcode {
            TEXT | BINARY if self.frames > 0 => return Err(FrameError(code::PROTOCOL, "a message within a message")),
            CONTINUATION if self.frames == 0 => return Err(FrameError(code::PROTOCOL, "nothing to be continued")),
            CLOSE | PING | PONG => return Ok(()),
            _ => {}
        }
        if self.frames >= FRAMES_OF_MESSAGE_MAX {
            return Err(FrameError(code::POLICY, "a message of more than 1,024 frames"));
        }
        self.frames += 1;
        let length = (self.message.len() as u64).saturating_add(frame.left);
        match usize::try_from(length) {
            Ok(length) if !self.room.is_too_long(length) => Ok(()),
            _ => Err(FrameError(code::TOO_BIG, "a message is too long")),
        }
    }

    /// Takes what there is of the payload; false where more must come.
    fn take_payload(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        let frame = self.frame.as_mut().expect("its head was read");
        let count = bytes.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
        let (now, later) = bytes.split_at(count);
        *bytes = later;
        let target = if is_control(frame.opcode) { &mut self.control } else { &mut self.message };
        target.extend(now.iter().enumerate().map(|(at, byte)| byte ^ frame.mask[(frame.read + at) % 4]));
        frame.read += count;
        frame.left -= count as u64;
        let is_whole = frame.left == 0;
        self.room.hold(self.message.capacity());
        if self.room.is_too_long(self.message.len()) {
            return Err(FrameError(code::TOO_BIG, "all unfinished messages together are too long"));
        }
        if is_whole {
            let frame = self.frame.take().expect("it is there");
            self.end(&frame)?;
        }
        Ok(is_whole)
    }

    fn end(&mut self, frame: &Frame) -> Result<(), FrameError> {
        match frame.opcode {
            PONG => self.control.clear(),
            PING => self.events.push_back(Event::Ping(std::mem::take(&mut self.control))),
            CLOSE => {
                let payload = std::mem::take(&mut self.control);
                self.events.push_back(Event::Close(close_code(&payload)?));
                self.is_closed = true;
            }
            _ if frame.is_last => {
                self.frames = 0;
                self.events.push_back(Event::Message(std::mem::take(&mut self.message)));
                self.room.hold(0);
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_control(opcode: u8) -> bool {
    opcode & 8 != 0
}

/// Reads a whole head: two bytes, the longer lengths, the mask.
fn parse_head(head: &[u8]) -> Result<Frame, FrameError> {
    let wrong = |why| Err(FrameError(code::PROTOCOL, why));
    let (is_last, reserved, opcode) = (head[0] & 0x80 != 0, head[0] & 0x70, head[0] & 0x0f);
    if reserved != 0 {
        return wrong("a reserved bit is set");
    }
    if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
        return wrong("an opcode that is not known");
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let (least, length) = match head[1] & 0x7f {
        126 => (126, number(&head[2..4])),
        127 => (1 << 16, number(&head[2..10])),
        short => (0, u64::from(short)),
    };
    if length < least || length >> 63 != 0 {
        return wrong("a length that is not written the shortest way");
    }
    if is_control(opcode) && (!is_last || length > CONTROL_BYTES_MAX) {
        return wrong("a control frame in parts, or of more than 125 bytes");
    }
    let mask = head[head.len() - 4..].try_into().expect("four bytes");
    Ok(Frame { opcode, is_last, left: length, mask, read: 0 })
}

fn close_code(payload: &[u8]) -> Result<Option<u16>, FrameError> {
    match payload {
        [] => Ok(None),
        [high, low, text @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let known = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            match known && std::str::from_utf8(text).is_ok() {
                true => Ok(Some(code)),
                false => Err(FrameError(code::PROTOCOL, "a closing code or reason that may not be")),
            }
        }
        [_] => Err(FrameError(code::PROTOCOL, "half a closing code")),
    }
}

fn write_head(opcode: u8, is_last: bool, length: usize, out: &mut Vec<u8>) {
    out.push(opcode | u8::from(is_last) << 7);
    match length {
        0..126 => out.push(length as u8),
        126..0x1_0000 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Writes messages as text frames. A message that is handed over in pieces becomes a frame a piece.
#[derive(Default)]
pub struct FrameWriter {
    /// A message has begun and not ended.
    is_within: bool,
}

impl FrameWriter {
    /// Writes pieces of messages; each message ends with a newline, which is not sent.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len() + 16);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_last) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let opcode = if self.is_within { CONTINUATION } else { TEXT };
            write_head(opcode, is_last, text.len(), out);
            out.extend_from_slice(text);
            self.is_within = !is_last;
        }
    }

    /// Gives a ping's bytes back; control frames may stand within a message.
    pub fn pong(payload: &[u8], out: &mut Vec<u8>) {
        write_head(PONG, true, payload.len(), out);
        out.extend_from_slice(payload);
    }

    /// Closes, with a code and a reason.
    pub fn close(code: u16, reason: &str, out: &mut Vec<u8>) {
        let mut end = reason.len().min(CONTROL_BYTES_MAX as usize - 2);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        write_head(CLOSE, true, 2 + end, out);
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(&reason.as_bytes()[..end]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::room::RoomLimits;
    use super::*;
    use crate::metrics::Metrics;

    const MAX: usize = 300;

    fn reader() -> FrameReader {
        let limits = RoomLimits { message_bytes_max: MAX, own_bytes: 64, shared_bytes_max: 1 << 20 };
        FrameReader::new(Room::new(Arc::new(Metrics::new([])), limits))
    }

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_head(first & 0x7f, first & 0x80 != 0, payload.len(), &mut out);
        out[1] |= 0x80;
        let mask = [1, 2, 3, 0x84];
        out.extend_from_slice(&mask);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        out
    }

    fn read(bytes: &[u8], cut: usize) -> (Vec<Event>, Option<FrameError>) {
        let mut reader = reader();
        let error = bytes.chunks(cut).find_map(|piece| reader.push(piece).err());
        (std::iter::from_fn(|| reader.next()).collect(), error)
    }

    #[track_caller]
    fn check(bytes: &[u8], events: &[Event], error: Option<(u16, &str)>) {
        for cut in [1, 3, 7, 1 << 20] {
            let (got, failed) = read(bytes, cut);
            assert_eq!(got, events, "cut every {cut}");
            assert_eq!(failed.map(|error| error.0), error.map(|error| error.0), "{failed:?}");
            assert!(failed.is_none_or(|failed| failed.1.contains(error.expect("it failed").1)), "{failed:?}");
        }
    }

    fn message(length: usize) -> Event {
        Event::Message(vec![b'x'; length])
    }

    #[test]
    fn messages_whole_and_in_parts() {
        for length in [0, 1, 125, 126, MAX] {
            check(&frame(0x81, &vec![b'x'; length]), &[message(length)], None);
            check(&frame(0x82, &vec![b'x'; length]), &[message(length)], None);
        }
        let parts =
            [frame(1, b"xx"), frame(0x89, b"now"), frame(0, b""), frame(0x8a, b"?"), frame(0x80, b"x")].concat();
        check(&parts, &[Event::Ping(b"now".to_vec()), message(3)], None);
        let ended = [frame(0x81, b"x"), frame(0x88, &[3, 0xe8, b'b']), frame(0x83, b"not looked at")].concat();
        check(&ended, &[message(1), Event::Close(Some(1000))], None);
        check(&frame(0x88, b""), &[Event::Close(None)], None);
    }

    #[test]
    fn frames_that_break_a_rule() {
        let protocol = |why| Some((code::PROTOCOL, why));
        check(&frame(0xc1, b"x"), &[], protocol("reserved"));
        check(&frame(0x83, b"x"), &[], protocol("opcode"));
        check(&[0x81, 1], &[], protocol("not masked"));
        check(&frame(0x80, b"x"), &[], protocol("nothing to be continued"));
        check(&[frame(1, b"x"), frame(0x81, b"x")].concat(), &[], protocol("within"));
        check(&frame(9, b"x"), &[], protocol("in parts"));
        check(&frame(0x89, &[0; 126]), &[], protocol("125"));
        check(&[0x81, 0xfe, 0, 125, 0, 0, 0, 0], &[], protocol("shortest"));
        check(&[&[0x81, 0xff][..], &65_535u64.to_be_bytes(), &[0; 4]].concat(), &[], protocol("shortest"));
        check(&[&[0x81, 0xff][..], &(1u64 << 63).to_be_bytes(), &[0; 4]].concat(), &[], protocol("shortest"));
        check(&frame(0x88, &[3]), &[], protocol("half"));
        check(&frame(0x88, &[3, 0xed]), &[], protocol("may not be"));
        check(&frame(0x88, &[3, 0xe8, 0xff]), &[], protocol("may not be"));
    }

    #[test]
    fn lengths_are_refused_before_the_bytes_come() {
        let long = Some((code::TOO_BIG, "too long"));
        check(&frame(0x81, &[b'x'; MAX + 1])[..8], &[], long);
        check(&[&[0x81, 0xff][..], &(u64::MAX >> 1).to_be_bytes(), &[0; 4]].concat(), &[], long);
        check(&[frame(1, &[b'x'; MAX]), frame(0, b"x")[..6].to_vec()].concat(), &[], long);
        let tiny = |count: u32| (1..count).fold(frame(1, b""), |bytes, _| [bytes, frame(0, b"")].concat());
        check(&[tiny(FRAMES_OF_MESSAGE_MAX - 1), frame(0x80, b"")].concat(), &[message(0)], None);
        check(&tiny(FRAMES_OF_MESSAGE_MAX + 1), &[], Some((code::POLICY, "1,024")));
    }

    #[test]
    fn ours_are_cut_at_newlines_and_at_pieces() {
        let mut writer = FrameWriter::default();
        let mut out = Vec::new();
        writer.write(b"ab\nc", &mut out);
        writer.write(b"d", &mut out);
        writer.write(b"\n", &mut out);
        assert_eq!(out, [&[0x81, 2][..], b"ab", &[0x01, 1], b"c", &[0x00, 1], b"d", &[0x80, 0]].concat());
        for (length, head) in
            [(125, vec![0x81, 125]), (126, vec![0x81, 126, 0, 126]), (65_535, vec![0x81, 126, 255, 255])]
        {
            let mut out = Vec::new();
            FrameWriter::default().write(&[vec![b'x'; length], vec![b'\n']].concat(), &mut out);
            assert_eq!((&out[..head.len()], out.len()), (&head[..], head.len() + length));
        }
        let mut out = Vec::new();
        FrameWriter::default().write(&[vec![b'x'; 65_536], vec![b'\n']].concat(), &mut out);
        assert_eq!(out[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        let mut out = Vec::new();
        FrameWriter::close(code::POLICY, &"\u{e9}".repeat(100), &mut out);
        assert_eq!((out[..4].to_vec(), out.len()), (vec![0x88, 124, 3, 0xf0], 126), "cut between letters");
    }
}
