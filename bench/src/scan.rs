//! A forward-only skimmer over JSON bytes: finds members and values without building anything.
//!
//! Key order and white space are free, because servers that store payloads as `jsonb` change both.

/// The bytes are not the JSON that was expected at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

type Scan<T> = Result<T, Malformed>;

/// A position in a JSON text. The caller walks down by `open_*` and must consume each value it meets.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(Malformed)
    }

    pub(crate) fn open_object(&mut self) -> Scan<()> {
        self.expect(b'{')
    }

    pub(crate) fn open_array(&mut self) -> Scan<()> {
        self.expect(b'[')
    }

    /// The next key of the open object, without quotes; `None` once the object is closed.
    pub(crate) fn next_key(&mut self) -> Scan<Option<&'a [u8]>> {
        if !self.next_item(b'}')? {
            return Ok(None);
        }
        let raw = self.string()?;
        self.expect(b':')?;
        Ok(Some(&raw[1..raw.len() - 1]))
    }

    /// True when another element of the open array follows.
    pub(crate) fn next_element(&mut self) -> Scan<bool> {
        self.next_item(b']')
    }

    fn next_item(&mut self, close: u8) -> Scan<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b) if b == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(Malformed),
        }
    }

    /// Consumes one value of any kind and returns its bytes, quotes included.
    pub(crate) fn value(&mut self) -> Scan<&'a [u8]> {
        let first = self.peek().ok_or(Malformed)?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                while self.bytes.get(self.at).is_some_and(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\n'))
                {
                    self.at += 1;
                }
            }
        }
        if self.at == start { Err(Malformed) } else { Ok(&self.bytes[start..self.at]) }
    }

    /// Consumes a string value and returns what is between its quotes, escapes untouched.
    pub(crate) fn text(&mut self) -> Scan<&'a [u8]> {
        let raw = self.value()?;
        if raw.len() < 2 || raw[0] != b'"' { Err(Malformed) } else { Ok(&raw[1..raw.len() - 1]) }
    }

    /// Consumes a number without sign or fraction.
    pub(crate) fn number(&mut self) -> Scan<u64> {
        let raw = self.value()?;
        std::str::from_utf8(raw).ok().and_then(|t| t.parse().ok()).ok_or(Malformed)
    }

    fn string(&mut self) -> Scan<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at - 1;
        loop {
            self.at += quote_or_escape(self.bytes.get(self.at..).ok_or(Malformed)?).ok_or(Malformed)?;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return Ok(&self.bytes[start..self.at]);
            }
            self.at += 2;
        }
    }

    fn skip_nested(&mut self) -> Scan<()> {
        let mut depth = 0usize;
        loop {
            match self.peek().ok_or(Malformed)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

/// Distance to the first `"` or `\`. Eight bytes per step: payload strings are most of what is read.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_byte = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zero_byte(word ^ (LOW * u64::from(b'"'))) | zero_byte(word ^ (LOW * u64::from(b'\\')));
        if hits != 0 {
            return Some(i * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let tail = rest.iter().position(|b| matches!(b, b'"' | b'\\'))?;
    Some(words.len() * 8 + tail)
}

/// What a push answer says about its items.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PushAnswer {
    pub(crate) queued: u64,
    pub(crate) duplicate: u64,
    pub(crate) other: u64,
}

/// Counts the statuses of a push answer.
pub(crate) fn push_answer(body: &[u8]) -> Scan<PushAnswer> {
    let mut cursor = Cursor::new(body);
    let mut answer = PushAnswer::default();
    cursor.open_array()?;
    while cursor.next_element()? {
        cursor.open_object()?;
        let mut status: &[u8] = b"";
        while let Some(key) = cursor.next_key()? {
            if key == b"status" {
                status = cursor.text()?;
            } else {
                cursor.value()?;
            }
        }
        match status {
            b"queued" => answer.queued += 1,
            b"duplicate" => answer.duplicate += 1,
            _ => answer.other += 1,
        }
    }
    Ok(answer)
}

/// Counts the accepted and the refused items of an ack answer.
pub(crate) fn ack_answer(body: &[u8]) -> Scan<(u64, u64)> {
    let mut cursor = Cursor::new(body);
    let (mut accepted, mut refused) = (0, 0);
    cursor.open_array()?;
    while cursor.next_element()? {
        cursor.open_object()?;
        let mut success = false;
        while let Some(key) = cursor.next_key()? {
            let value = cursor.value()?;
            success |= key == b"success" && value == b"true";
        }
        if success { accepted += 1 } else { refused += 1 }
    }
    Ok((accepted, refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_their_order_and_spacing() {
        let text = br#" { "skip" : {"a":[1,"}",{"b":"\"]"}]} , "n" : 42 , "t":"x\\\"y" , "z":null } "#;
        let mut cursor = Cursor::new(text);
        cursor.open_object().unwrap();
        let mut seen = Vec::new();
        while let Some(key) = cursor.next_key().unwrap() {
            match key {
                b"n" => seen.push(format!("n={}", cursor.number().unwrap())),
                b"t" => seen.push(format!("t={}", String::from_utf8_lossy(cursor.text().unwrap()))),
                _ => drop(cursor.value().unwrap()),
            }
        }
        assert_eq!(seen, ["n=42", r#"t=x\\\"y"#]);
    }

    #[test]
    fn every_truncation_is_malformed_and_never_panics() {
        let text = br#"[{"index":0,"status":"queued","x":{"y":[1,2,"a\"b"]}},{"status":"duplicate"}]"#;
        assert_eq!(push_answer(text), Ok(PushAnswer { queued: 1, duplicate: 1, other: 0 }));
        for end in 0..text.len() {
            assert_eq!(push_answer(&text[..end]), Err(Malformed), "cut at {end}");
        }
    }

    #[test]
    fn a_status_hidden_in_a_string_is_not_counted() {
        let text = br#"[{"transaction_id":"\"status\":\"queued\"","status":"failed"}]"#;
        assert_eq!(push_answer(text), Ok(PushAnswer { queued: 0, duplicate: 0, other: 1 }));
    }

    #[test]
    fn ack_answers_count_successes_and_refusals() {
        let text =
            br#"[{"success":true,"error":null},{"success": false,"error":"Invalid or expired lease"},{}]"#;
        assert_eq!(ack_answer(text), Ok((1, 2)));
    }

    #[test]
    fn the_wide_search_agrees_with_the_plain_one() {
        for length in 0..40 {
            for place in 0..length {
                for mark in *b"\"\\" {
                    let mut bytes = vec![0xe2u8; length];
                    bytes[place] = mark;
                    assert_eq!(quote_or_escape(&bytes), Some(place));
                }
            }
            assert_eq!(quote_or_escape(&vec![b'!'; length]), None);
        }
    }
}
