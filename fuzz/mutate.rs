//! Modifies inputs: flips bits and changes numbers, inserts pieces of other inputs and meaningful
//! byte sequences, a few changes at a time.

/// Makes one modified input; the same number gives the same input.
pub struct Mutator<'a> {
    random: fastrand::Rng,
    seeds: &'a [&'a [u8]],
    words: &'a [&'a [u8]],
}

/// Bytes at the limits of lengths and tags.
const EDGES: [u8; 10] = [0, 1, 2, 0x0a, 0x12, 0x1f, 0x7f, 0x80, 0xfe, 0xff];

impl<'a> Mutator<'a> {
    /// Creates the generator of one input.
    pub fn new(number: u64, seeds: &'a [&'a [u8]], words: &'a [&'a [u8]]) -> Mutator<'a> {
        Mutator { random: fastrand::Rng::with_seed(number), seeds, words }
    }

    fn seed(&mut self) -> &'a [u8] {
        self.seeds[self.random.usize(..self.seeds.len())]
    }

    /// A random part of some bytes.
    fn part(&mut self, of: &'a [u8]) -> &'a [u8] {
        let at = self.random.usize(..=of.len());
        let most = (of.len() - at).min(64);
        &of[at..at + self.random.usize(..=most)]
    }

    /// A seed with one to four changes.
    pub fn input(mut self) -> Vec<u8> {
        let mut bytes = self.seed().to_vec();
        for _ in 0..1 + self.random.usize(..4) {
            self.change(&mut bytes);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.random.usize(..=bytes.len());
        // Most changes keep the length, so that the data around them is still parsed.
        match self.random.u8(..24) {
            0..=8 if at < bytes.len() => bytes[at] ^= 1 << self.random.u8(..8),
            9..=13 if at < bytes.len() => bytes[at] = EDGES[self.random.usize(..EDGES.len())],
            // A multi-byte number that is far too large, for example as the length of a protobuf
            // field.
            14 => insert(bytes, at, &[0xff, 0xff, 0xff, 0xff, 0x0f][..1 + self.random.usize(..5)]),
            15 | 16 => {
                let end = at + self.random.usize(..=(bytes.len() - at).min(32));
                bytes.drain(at..end);
            }
            17..=19 => {
                let other = self.seed();
                let part = self.part(other);
                insert(bytes, at, part);
            }
            20..=22 if !self.words.is_empty() => {
                let word = self.words[self.random.usize(..self.words.len())];
                insert(bytes, at, word);
            }
            23 if self.random.bool() => bytes.truncate(at),
            _ => bytes.push(self.random.u8(..)),
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    bytes.splice(at..at, part.iter().copied());
}
