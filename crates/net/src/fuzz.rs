//! Bodies of fuzz targets: anything that can come from a peer, and what must hold whatever came.
//!
//! In:     any bytes.
//! Out:    nothing.
//! Fails:  panics where a promise is broken, which is what a fuzzer looks for.

use stdx::random::Random;

use crate::transport::{Role, Secret, Transport};
use crate::wire::{Command, Message};

/// 12 bytes of command, then a payload: what parses is written, read again as the same, and written as the same.
pub fn fuzz_message(bytes: &[u8]) {
    let Some((command, payload)) = bytes.split_first_chunk::<12>() else { return };
    let Some(command) = Command::from_bytes(*command) else { return };
    let Ok(message) = Message::parse(command, payload.to_vec()) else { return };
    assert_eq!(message.command(), command, "a message keeps its name");
    let written = message.payload();
    let again = Message::parse(command, written.clone()).expect("what we write can be read");
    assert_eq!(again, message, "{command}: what was written reads the same");
    assert_eq!(again.payload(), written, "{command}: what was read writes the same");
}

/// A stream that opens a connection, cut into pieces of the first byte's length: plain, or encrypted in either role. However it
/// is cut, the same comes out.
pub fn fuzz_stream(bytes: &[u8]) {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let magic = [0xfa, 0xbf, 0xb5, 0xda];
    let run = |kind: usize, piece: usize| {
        let (mut out, mut received) = (Vec::new(), Vec::new());
        let secret = || Secret::draw(&mut Random::new(1));
        let mut side = match kind {
            0 => Transport::plain(magic),
            1 => Transport::encrypted(magic, Role::Initiator, secret(), &mut out),
            _ => Transport::encrypted(magic, Role::Responder, secret(), &mut out),
        };
        let result = stream.chunks(piece).try_for_each(|piece| side.receive(piece, &mut out, &mut received));
        (result, received, out)
    };
    for kind in 0..3 {
        assert_eq!(run(kind, usize::from(*piece).max(1)), run(kind, stream.len().max(1)), "pieces make no difference");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_noise_and_of_half_frames_end_or_wait() {
        let mut random = Random::new(324);
        for _ in 0..300 {
            let mut bytes = vec![random.next_u64() as u8];
            let mut frames = Vec::new();
            Transport::plain([0xfa, 0xbf, 0xb5, 0xda]).send(&Message::Ping(Some(random.next_u64())), &mut frames);
            for _ in 0..random.below(4) {
                bytes.extend_from_slice(&frames);
            }
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= random.next_u64() as u8;
            let noise = random.below(6_000) as usize;
            bytes.resize(bytes.len() + noise, 0);
            let start = bytes.len() - noise;
            random.fill(&mut bytes[start..]);
            fuzz_stream(&bytes);
        }
    }
}
