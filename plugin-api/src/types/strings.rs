//! Tensors of strings: little-endian `u64` offsets, one more than there are strings, followed by
//! the bytes of all strings.

/// Bytes per offset.
const OFFSET: usize = 8;

/// The `count` strings of a tensor with these bytes; `None` if the offsets do not fit the bytes.
pub fn strings_in(bytes: &[u8], count: u64) -> Option<Vec<&[u8]>> {
    let table = usize::try_from(count).ok()?.checked_add(1)?.checked_mul(OFFSET)?;
    let (table, rest) = bytes.split_at_checked(table)?;
    let offsets = table.as_chunks::<OFFSET>().0.iter().map(|b| usize::try_from(u64::from_le_bytes(*b)).ok());
    let offsets: Vec<usize> = offsets.collect::<Option<_>>()?;
    offsets.windows(2).map(|w| rest.get(w[0]..w[1])).collect()
}

/// The bytes of a tensor that holds these strings.
pub fn bytes_of_strings<S: AsRef<[u8]>>(all: &[S]) -> Vec<u8> {
    let length: usize = all.iter().map(|s| s.as_ref().len()).sum();
    let mut out = Vec::with_capacity((all.len() + 1) * OFFSET + length);
    let mut end = 0u64;
    out.extend_from_slice(&end.to_le_bytes());
    for s in all {
        end += s.as_ref().len() as u64;
        out.extend_from_slice(&end.to_le_bytes());
    }
    all.iter().for_each(|s| out.extend_from_slice(s.as_ref()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_and_offsets_that_do_not_fit_are_refused() {
        let all = ["ab", "", "\u{1F600}"];
        let bytes = bytes_of_strings(&all);
        let back: Vec<&[u8]> = all.iter().map(|s| s.as_bytes()).collect();
        assert_eq!(strings_in(&bytes, 3), Some(back));
        assert_eq!(strings_in(&bytes_of_strings::<&str>(&[]), 0), Some(vec![]));
        assert!(strings_in(&bytes, u64::MAX).is_none() && strings_in(&bytes[..31], 3).is_none());
        for cut in 0..bytes.len() {
            assert!(strings_in(&bytes[..cut], 3).is_none(), "cut at {cut}");
        }
    }
}
