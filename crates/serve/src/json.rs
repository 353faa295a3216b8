//! JSON written straight into a buffer: no tree is built, so an answer costs its bytes and nothing more.
//!
//! In:     keys and values in the order in which they shall stand.
//! Out:    JSON text without blanks, appended to the caller's buffer.
//! Fails:  never; a caller that opens and does not close writes text that is no JSON, which tests of answers find.
//! Source: Bitcoin Core's `UniValue::write`, `ValueFromAmount` and `setFloat` for how values look.

/// Decimal digits of the longest `u64`.
const U64_DIGITS_MAX: usize = 20;

/// A place in a text where the next value goes.
pub struct Json<'a> {
    out: &'a mut Vec<u8>,
    comma: bool,
}

impl<'a> Json<'a> {
    /// Writes at the end of `out`, where a value is expected.
    pub fn new(out: &'a mut Vec<u8>) -> Json<'a> {
        Json { out, comma: false }
    }

    fn lead(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }

    /// `{`
    pub fn begin_object(&mut self) {
        self.lead();
        self.out.push(b'{');
        self.comma = false;
    }

    /// `}`
    pub fn end_object(&mut self) {
        self.out.push(b'}');
        self.comma = true;
    }

    /// `[`
    pub fn begin_array(&mut self) {
        self.lead();
        self.out.push(b'[');
        self.comma = false;
    }

    /// `]`
    pub fn end_array(&mut self) {
        self.out.push(b']');
        self.comma = true;
    }

    /// A member's name that needs no escapes; its value comes next.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.lead();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.comma = false;
        self
    }

    /// A member's name out of data; its value comes next.
    pub fn key_of(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self.out.push(b':');
        self.comma = false;
        self
    }

    /// `null`
    pub fn null(&mut self) {
        self.raw(b"null");
    }

    /// `true` or `false`
    pub fn bool(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    /// A whole number.
    pub fn number(&mut self, value: impl Into<i128>) {
        self.lead();
        push_integer(self.out, value.into());
    }

    /// A length or position.
    pub fn count(&mut self, value: usize) {
        self.lead();
        push_u64(self.out, value as u64);
    }

    /// A floating-point number with 16 significant digits.
    pub fn float(&mut self, value: f64) {
        let text = float_text(value);
        self.raw(text.as_bytes());
    }

    /// An amount in bitcoin with eight decimals.
    pub fn amount(&mut self, value_sat: i64) {
        self.lead();
        push_amount(self.out, value_sat);
    }

    /// A string, with escapes where they are needed.
    pub fn text(&mut self, value: &str) {
        self.lead();
        push_text(self.out, value);
    }

    /// What displays itself without characters that need escapes: hashes, addresses.
    pub fn show(&mut self, value: impl std::fmt::Display) {
        use std::io::Write as _;
        self.lead();
        write!(self.out, "\"{value}\"").expect("writing to memory");
    }

    /// Bytes as hexadecimal digits.
    pub fn hex(&mut self, bytes: &[u8]) {
        self.lead();
        self.out.push(b'"');
        push_hex(self.out, bytes);
        self.out.push(b'"');
    }

    /// 32 bytes as Core shows hashes: reversed.
    pub fn hash(&mut self, bytes: &[u8; 32]) {
        let mut shown = *bytes;
        shown.reverse();
        self.hex(&shown);
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, json: &[u8]) {
        self.lead();
        self.out.extend_from_slice(json);
    }

    /// A value that `write` appends by itself.
    pub fn with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.lead();
        write(self.out);
    }
}

const HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Appends the lower-case hexadecimal digits of `bytes`.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    for (pair, byte) in out[start..].chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
    }
}

/// Appends decimal digits.
pub fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; U64_DIGITS_MAX];
    let mut at = U64_DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_integer(out: &mut Vec<u8>, value: i128) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, u64::try_from(value.unsigned_abs()).expect("answers hold no number beyond 64 bits"));
}

/// Appends an amount in bitcoin with eight decimals (Core: `ValueFromAmount`).
pub fn push_amount(out: &mut Vec<u8>, value_sat: i64) {
    if value_sat < 0 {
        out.push(b'-');
    }
    let absolute = value_sat.unsigned_abs();
    push_u64(out, absolute / 100_000_000);
    out.push(b'.');
    let mut rest = absolute % 100_000_000;
    let mut digits = [b'0'; 8];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits);
}

/// Appends a string in quotes (Core: `json_escape`).
pub fn push_text(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=31 | 127 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&HEX_PAIRS[usize::from(byte)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// A floating-point number as C's `%.16g` writes it, which is what Core's `setprecision(16)` does.
pub fn float_text(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{value:.15e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("this format has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..16).contains(&exponent) {
        let decimals = (15 - exponent).max(0) as usize;
        return trim(&format!("{value:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_core_writes_them() {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        json.begin_object();
        json.key("a").number(-7);
        json.key("b").amount(-123_456_789);
        json.key("c").begin_array();
        json.bool(true);
        json.null();
        json.text("q\"\\\n\u{1}\u{7f}é/");
        json.begin_array();
        json.end_array();
        json.hex(&[0, 255]);
        json.end_array();
        json.key_of("k\"").begin_object();
        json.end_object();
        json.key("d").count(0);
        json.end_object();
        let want = r#"{"a":-7,"b":-1.23456789,"c":[true,null,"q\"\\\n\u0001\u007fé/",[],"00ff"],"k\"":{},"d":0}"#;
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn amounts_have_eight_decimals_at_every_edge() {
        #[track_caller]
        fn check(value_sat: i64, want: &str) {
            let mut out = Vec::new();
            push_amount(&mut out, value_sat);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
        check(0, "0.00000000");
        check(1, "0.00000001");
        check(-1, "-0.00000001");
        check(99_999_999, "0.99999999");
        check(100_000_000, "1.00000000");
        check(2_100_000_000_000_000, "21000000.00000000");
        check(i64::MIN, "-92233720368.54775808");
    }

    #[test]
    fn floats_have_sixteen_digits_at_most() {
        #[track_caller]
        fn check(value: f64, want: &str) {
            assert_eq!(float_text(value), want);
        }
        check(0.0, "0");
        check(1.0, "1");
        check(0.5, "0.5");
        check(4.656542373906925e-10, "4.656542373906925e-10");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(1e15, "1000000000000000");
        check(1e16, "1e+16");
        check(129_435_235_580_344.75, "129435235580344.8");
        check(7.122_315_273_451_203e20, "7.122315273451203e+20");
        check(1.0 / 3.0, "0.3333333333333333");
        check(f64::NAN, "0");
    }
}
