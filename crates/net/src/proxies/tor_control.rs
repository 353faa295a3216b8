//! An onion service, asked of Tor by its control port.
//!
//! In:     replies of Tor, the cookie's file, a password.
//! Out:    commands; at the end the service's host and its key.
//! Fails:  [`TorError`].
//! Source: Tor's control-spec (`PROTOCOLINFO`, `AUTHCHALLENGE`, `AUTHENTICATE`, `ADD_ONION`); Bitcoin Core, `src/torcontrol.cpp`.
//!
//! The service lives as long as the control connection.

use std::fmt;

use bitcoin_hashes::{Hash, HashEngine, HmacEngine, sha256};
use stdx::hex;

use crate::wire::Host;

/// Longest line Tor may send, in bytes; Core's `MAX_LINE_LENGTH`.
pub const LINE_BYTES_MAX: usize = 100_000;
/// Most lines of one reply; Core's `MAX_LINE_COUNT`.
const REPLY_LINES_MAX: usize = 1_000;
/// Bytes of the cookie.
const COOKIE_BYTES: usize = 32;

/// Why there is no onion service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorError {
    /// It speaks another protocol.
    NotTor,
    /// A reply has more lines than any should.
    ReplyTooLong,
    /// It refuses a command.
    Refused {
        /// Which.
        command: &'static str,
        /// Its number for the reason.
        code: u16,
    },
    /// None of its ways of authentication can be used: a password may be needed.
    NoAuthentication,
    /// The cookie's file cannot be read, or has another size than 32 bytes.
    NoCookie,
    /// What answers does not know the cookie: it is not Tor.
    WrongServer,
    /// The reply lacks what the command is for.
    Incomplete {
        /// Which command's.
        command: &'static str,
    },
}

impl fmt::Display for TorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TorError::NotTor => f.write_str("this is no control port of Tor"),
            TorError::ReplyTooLong => f.write_str("a reply of Tor is too long"),
            TorError::Refused { command, code } => write!(f, "Tor refuses {command} ({code})"),
            TorError::NoAuthentication => f.write_str("Tor offers no authentication we can use; a password may help"),
            TorError::NoCookie => f.write_str("Tor's cookie cannot be read"),
            TorError::WrongServer => f.write_str("what answers at the control port does not know Tor's cookie"),
            TorError::Incomplete { command } => write!(f, "Tor's reply to {command} lacks what was asked for"),
        }
    }
}

impl std::error::Error for TorError {}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorStep {
    /// More lines belong to the reply.
    Wait,
    /// Send this line.
    Send(String),
    /// The service stands; a new key is to be kept.
    Done {
        /// Its name.
        host: Host,
        /// Its key, where it is a new one.
        new_key: Option<String>,
    },
}

enum State {
    Info,
    Challenge { cookie: Vec<u8> },
    Authenticate,
    Add,
    Done,
}

/// One conversation with Tor.
pub struct TorControl {
    state: State,
    reply: Vec<String>,
    password: Option<String>,
    /// The service's key, where it had one before.
    key: Option<String>,
    /// `Port=8333,127.0.0.1:8334`.
    port: String,
    nonce: [u8; 32],
}

impl TorControl {
    /// A conversation, and its first line. `nonce` is random.
    pub fn new(password: Option<String>, key: Option<String>, port: String, nonce: [u8; 32]) -> (TorControl, String) {
        let control = TorControl { state: State::Info, reply: Vec::new(), password, key, port, nonce };
        (control, "PROTOCOLINFO 1\r\n".to_owned())
    }

    /// Takes a line without its end; `read_cookie` reads the file Tor names.
    pub fn take(&mut self, line: &str, read_cookie: impl Fn(&str) -> Option<Vec<u8>>) -> Result<TorStep, TorError> {
        let (code, separator) = match (line.get(..3).and_then(|code| code.parse::<u16>().ok()), line.as_bytes().get(3))
        {
            (Some(code), Some(separator)) => (code, *separator),
            _ => return Err(TorError::NotTor),
        };
        // Replies of 6xx come by themselves and are not for us.
        if code >= 600 {
            return Ok(TorStep::Wait);
        }
        if self.reply.len() == REPLY_LINES_MAX {
            return Err(TorError::ReplyTooLong);
        }
        self.reply.push(line.get(4..).unwrap_or_default().to_owned());
        if separator != b' ' {
            return Ok(TorStep::Wait);
        }
        let reply = std::mem::take(&mut self.reply);
        if code != 250 {
            return Err(TorError::Refused { command: self.command(), code });
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Info => self.authenticate(&reply, read_cookie),
            State::Challenge { cookie } => self.answer(&reply, &cookie),
            State::Authenticate => {
                self.state = State::Add;
                let key = self.key.as_deref().unwrap_or("NEW:ED25519-V3");
                Ok(TorStep::Send(format!("ADD_ONION {key} Port={}\r\n", self.port)))
            }
            State::Add => self.finish(&reply),
            State::Done => Ok(TorStep::Wait),
        }
    }

    fn command(&self) -> &'static str {
        match self.state {
            State::Info => "PROTOCOLINFO",
            State::Challenge { .. } => "AUTHCHALLENGE",
            State::Authenticate => "AUTHENTICATE",
            State::Add | State::Done => "ADD_ONION",
        }
    }

    fn authenticate(
        &mut self,
        reply: &[String],
        read_cookie: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<TorStep, TorError> {
        let line = reply.iter().find_map(|line| line.strip_prefix("AUTH "));
        let line = line.ok_or(TorError::Incomplete { command: "PROTOCOLINFO" })?;
        let methods = field(line, "METHODS").unwrap_or_default();
        let has = |wanted: &str| methods.split(',').any(|method| method == wanted);
        self.state = State::Authenticate;
        if let (Some(password), true) = (&self.password, has("HASHEDPASSWORD")) {
            return Ok(TorStep::Send(format!("AUTHENTICATE \"{}\"\r\n", escaped(password))));
        }
        if has("NULL") {
            return Ok(TorStep::Send("AUTHENTICATE\r\n".to_owned()));
        }
        if !has("SAFECOOKIE") {
            return Err(TorError::NoAuthentication);
        }
        let cookie = field(line, "COOKIEFILE").and_then(|path| read_cookie(&path));
        let cookie = cookie.filter(|cookie| cookie.len() == COOKIE_BYTES).ok_or(TorError::NoCookie)?;
        self.state = State::Challenge { cookie };
        Ok(TorStep::Send(format!("AUTHCHALLENGE SAFECOOKIE {}\r\n", hex::encode(&self.nonce))))
    }

    /// Checks that Tor knows the cookie before saying that we do.
    fn answer(&mut self, reply: &[String], cookie: &[u8]) -> Result<TorStep, TorError> {
        let line = reply.iter().find_map(|line| line.strip_prefix("AUTHCHALLENGE "));
        let bytes = |name| line.and_then(|line| field(line, name)).and_then(|text| hex::decode_array::<32>(&text).ok());
        let (Some(hash), Some(nonce)) = (bytes("SERVERHASH"), bytes("SERVERNONCE")) else {
            return Err(TorError::Incomplete { command: "AUTHCHALLENGE" });
        };
        let sign = |key: &[u8]| hmac(key, &[cookie, &self.nonce, &nonce]);
        if sign(b"Tor safe cookie authentication server-to-controller hash") != hash {
            return Err(TorError::WrongServer);
        }
        let ours = sign(b"Tor safe cookie authentication controller-to-server hash");
        self.state = State::Authenticate;
        Ok(TorStep::Send(format!("AUTHENTICATE {}\r\n", hex::encode(&ours))))
    }

    fn finish(&mut self, reply: &[String]) -> Result<TorStep, TorError> {
        let value = |name: &str| reply.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let host = value("ServiceID").and_then(|id| format!("{id}.onion").parse::<Host>().ok());
        let host = host.ok_or(TorError::Incomplete { command: "ADD_ONION" })?;
        // The key goes back to Tor in a command some day: it may not have two lines.
        let new_key = value("PrivateKey").filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()));
        Ok(TorStep::Done { host, new_key: new_key.map(str::to_owned) })
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut engine = HmacEngine::<sha256::HashEngine>::new(key);
    parts.iter().for_each(|part| engine.input(part));
    engine.finalize().to_byte_array()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The value of `NAME=value` or `NAME="value"` in a line.
fn field(line: &str, name: &str) -> Option<String> {
    let start = line.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|before| before == ' ') && line[at + name.len()..].starts_with('=')
    })?;
    let value = &line[start + name.len() + 1..];
    let Some(quoted) = value.strip_prefix('"') else { return value.split(' ').next().map(str::to_owned) };
    let (mut text, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd";
    const COOKIE: [u8; 32] = [7; 32];
    const NONCE: [u8; 32] = [1; 32];

    /// Plays Tor's lines; gives what was sent, and the end.
    fn play(password: Option<&str>, key: Option<&str>, lines: &[&str]) -> (Vec<String>, Result<TorStep, TorError>) {
        let port = "8333,127.0.0.1:8334".to_owned();
        let (mut control, first) = TorControl::new(password.map(str::to_owned), key.map(str::to_owned), port, NONCE);
        assert_eq!(first, "PROTOCOLINFO 1\r\n");
        let mut sent = Vec::new();
        let mut last = Ok(TorStep::Wait);
        for line in lines {
            last = control.take(line, |path| (path == "/a b\"c").then(|| COOKIE.to_vec()));
            match &last {
                Ok(TorStep::Send(line)) => sent.push(line.trim_end().to_owned()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        (sent, last)
    }

    fn added() -> [String; 3] {
        [format!("250-ServiceID={ONION}"), "250-PrivateKey=ED25519-V3:abc=".to_owned(), "250 OK".to_owned()]
    }

    #[test]
    fn a_service_is_made_by_each_way_of_authentication() {
        let added = added();
        let ends: Vec<&str> = ["250 OK"].into_iter().chain(added.iter().map(String::as_str)).collect();
        let done = Ok(TorStep::Done {
            host: format!("{ONION}.onion").parse().unwrap(),
            new_key: Some("ED25519-V3:abc=".into()),
        });
        let add = "ADD_ONION NEW:ED25519-V3 Port=8333,127.0.0.1:8334".to_owned();

        let null = ["250-PROTOCOLINFO 1", "250-AUTH METHODS=NULL", "650 NOTICE something", "250 OK"];
        let (sent, last) = play(None, None, &[&null[..], &ends].concat());
        assert_eq!((sent, last), (vec!["AUTHENTICATE".to_owned(), add.clone()], done.clone()));

        let password = ["250-AUTH METHODS=HASHEDPASSWORD", "250 OK"];
        let (sent, last) = play(Some("a\"b\\"), None, &[&password[..], &ends].concat());
        assert_eq!((sent, last), (vec!["AUTHENTICATE \"a\\\"b\\\\\"".to_owned(), add.clone()], done.clone()));

        let server = hmac(b"Tor safe cookie authentication server-to-controller hash", &[&COOKIE, &NONCE, &[2; 32]]);
        let ours = hmac(b"Tor safe cookie authentication controller-to-server hash", &[&COOKIE, &NONCE, &[2; 32]]);
        let challenge =
            format!("250 AUTHCHALLENGE SERVERHASH={} SERVERNONCE={}", hex::encode(&server), hex::encode(&[2; 32]));
        let cookie = ["250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"/a b\\\"c\"", "250 OK", &challenge];
        let (sent, last) = play(None, Some("ED25519-V3:old"), &[&cookie[..], &ends].concat());
        let want = [
            format!("AUTHCHALLENGE SAFECOOKIE {}", hex::encode(&NONCE)),
            format!("AUTHENTICATE {}", hex::encode(&ours)),
            "ADD_ONION ED25519-V3:old Port=8333,127.0.0.1:8334".to_owned(),
        ];
        assert_eq!((sent, last), (want.to_vec(), done));
    }

    #[test]
    fn what_goes_wrong_is_said() {
        #[track_caller]
        fn check(lines: &[&str], want: TorError) {
            assert_eq!(play(None, None, lines).1, Err(want));
        }
        let cookie = ["250-AUTH METHODS=SAFECOOKIE COOKIEFILE=\"/a b\\\"c\"", "250 OK"];
        let zeros = "0".repeat(64);
        check(&["HTTP/1.1 400 Bad Request"], TorError::NotTor);
        check(&[""], TorError::NotTor);
        check(&["250 OK"], TorError::Incomplete { command: "PROTOCOLINFO" });
        check(&["250-AUTH METHODS=HASHEDPASSWORD", "250 OK"], TorError::NoAuthentication);
        check(&["250-AUTH METHODS=SAFECOOKIE COOKIEFILE=\"/other\"", "250 OK"], TorError::NoCookie);
        check(&["250-AUTH METHODS=SAFECOOKIE", "250 OK"], TorError::NoCookie);
        check(&["515 Authentication failed"], TorError::Refused { command: "PROTOCOLINFO", code: 515 });
        let wrong = format!("250 AUTHCHALLENGE SERVERHASH={zeros} SERVERNONCE={zeros}");
        check(&[cookie[0], cookie[1], &wrong], TorError::WrongServer);
        check(&[cookie[0], cookie[1], "250 AUTHCHALLENGE X"], TorError::Incomplete { command: "AUTHCHALLENGE" });
        let null = ["250-AUTH METHODS=NULL", "250 OK", "250 OK"];
        check(&[&null[..], &["250 OK"]].concat(), TorError::Incomplete { command: "ADD_ONION" });
        check(&[&null[..], &["512 no"]].concat(), TorError::Refused { command: "ADD_ONION", code: 512 });
        check(&vec!["250-x"; 1_001], TorError::ReplyTooLong);
    }
}
