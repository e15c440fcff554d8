//! The header of an OM file: 256 bytes, little endian (facts 7.1).

use crate::error::OmError;

/// Magic number: `IMOD` in the file.
pub const MAGIC: u32 = 0x444F_4D49;
/// Size of the header in bytes.
pub const HEADER_LEN: usize = 256;
/// Container version 1.0: one model and no model count.
pub const VERSION_1: u32 = 0x1000_0000;
/// Container version 2.0, the one that we write.
pub const VERSION_2: u32 = 0x2000_0000;
/// Byte offset of the checksum field in the file.
pub const CHECKSUM_AT: usize = 12;
/// Size of the checksum field in bytes.
pub const CHECKSUM_LEN: usize = 64;

/// Start of `user_define_info` in our files; the format version in decimal follows it.
const MARK: &[u8] = b"ge_rs.format=";

/// `model_type`: the kind of content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ModelType {
    /// 0: only a graph.
    Ir,
    /// 1: a compiled model.
    Standard,
    /// 2: a compact form whose table has 32-bit entries.
    Tiny,
    /// 3: a flow of models.
    Flow,
    /// 4: the form for small devices.
    Lite,
    /// 5: several models side by side.
    Bundle,
    /// Any other number.
    Other(u8),
}

impl ModelType {
    /// Converts the byte in the header.
    #[must_use]
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Ir,
            1 => Self::Standard,
            2 => Self::Tiny,
            3 => Self::Flow,
            4 => Self::Lite,
            5 => Self::Bundle,
            other => Self::Other(other),
        }
    }

    /// Returns the byte for the header.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Ir => 0,
            Self::Standard => 1,
            Self::Tiny => 2,
            Self::Flow => 3,
            Self::Lite => 4,
            Self::Bundle => 5,
            Self::Other(other) => other,
        }
    }
}

/// All fields of the header, including padding and reserved bytes, so that encoding restores
/// exactly what was decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Container version; see [`VERSION_2`].
    pub version: u32,
    /// Digest of the file; 64 hex digits in our files.
    pub checksum: [u8; CHECKSUM_LEN],
    /// Number of bytes after the header, if it fits into 32 bits.
    pub length: u32,
    /// 1 if the file is encrypted.
    pub is_encrypt: u8,
    /// 0 if the checksum is to be verified, 1 if not.
    pub is_checksum: u8,
    /// Kind of content.
    pub model_type: ModelType,
    /// 0 if the file was compiled ahead of time, 1 if online.
    pub gen_mode: u8,
    /// Name of the model, zero padded, truncated to 32 bytes.
    pub name: [u8; 32],
    /// Computing power in thousands of operations; unused.
    pub ops: u32,
    /// Free for use by the producer; holds the mark of our files.
    pub user_define_info: [u8; 32],
    /// Version of the graph format.
    pub om_ir_version: u32,
    /// Number of models in the file; 0 means 1.
    pub model_num: u32,
    /// Version of the platform, zero padded.
    pub platform_version: [u8; 20],
    /// Type of the platform.
    pub platform_type: u8,
    /// Unused.
    pub padding: [u8; 3],
    /// Number of bytes after the header.
    pub model_length: u64,
    /// 1 if the file contains libraries for one operating system and processor.
    pub need_check_os_cpu_info: u8,
    /// 0 for a model of known shapes, 1 for one of unknown shapes.
    pub is_unknow_model: u8,
    /// Unused.
    pub reserved: [u8; 62],
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: VERSION_2,
            checksum: [0; CHECKSUM_LEN],
            length: 0,
            is_encrypt: 0,
            is_checksum: 0,
            model_type: ModelType::Standard,
            gen_mode: 0,
            name: [0; 32],
            ops: 0,
            user_define_info: [0; 32],
            om_ir_version: 0,
            model_num: 1,
            platform_version: [0; 20],
            platform_type: 0,
            padding: [0; 3],
            model_length: 0,
            need_check_os_cpu_info: 0,
            is_unknow_model: 0,
            reserved: [0; 62],
        }
    }
}

/// Copies `N` bytes at `at`; the caller has checked that the header is complete.
fn field<const N: usize>(bytes: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// The text up to the first zero byte; invalid characters are replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The text as `N` bytes: truncated at a character boundary and zero padded.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut end = text.len().min(N);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = [0; N];
    out[..end].copy_from_slice(&text.as_bytes()[..end]);
    out
}

impl Header {
    /// Reads the header at the start of a file.
    ///
    /// # Errors
    /// Fails with [`OmError::BadMagic`], [`OmError::Truncated`], [`OmError::BadHeader`] (another
    /// header size) or [`OmError::UnsupportedVersion`].
    pub fn decode(file: &[u8]) -> Result<Self, OmError> {
        if let Some(magic) = file.first_chunk::<4>() {
            let found = u32::from_le_bytes(*magic);
            if found != MAGIC {
                return Err(OmError::BadMagic { found, expected: MAGIC });
            }
        }
        let Some(bytes) = file.first_chunk::<HEADER_LEN>() else {
            return Err(OmError::Truncated {
                what: "the header",
                needed: HEADER_LEN as u64,
                available: file.len() as u64,
            });
        };
        let head_size = u32::from_le_bytes(field(bytes, 4));
        if head_size as usize != HEADER_LEN {
            return Err(OmError::BadHeader { field: "headsize", found: head_size.into(), expected: "256" });
        }
        let version = u32::from_le_bytes(field(bytes, 8));
        if version != VERSION_1 && version != VERSION_2 {
            return Err(OmError::UnsupportedVersion { found: version });
        }
        let model_num = if version == VERSION_1 { 1 } else { u32::from_le_bytes(field(bytes, 156)) };
        Ok(Self {
            version,
            checksum: field(bytes, CHECKSUM_AT),
            length: u32::from_le_bytes(field(bytes, 76)),
            is_encrypt: bytes[80],
            is_checksum: bytes[81],
            model_type: ModelType::from_byte(bytes[82]),
            gen_mode: bytes[83],
            name: field(bytes, 84),
            ops: u32::from_le_bytes(field(bytes, 116)),
            user_define_info: field(bytes, 120),
            om_ir_version: u32::from_le_bytes(field(bytes, 152)),
            model_num,
            platform_version: field(bytes, 160),
            platform_type: bytes[180],
            padding: field(bytes, 181),
            model_length: u64::from_le_bytes(field(bytes, 184)),
            need_check_os_cpu_info: bytes[192],
            is_unknow_model: bytes[193],
            reserved: field(bytes, 194),
        })
    }

    /// Returns the 256 bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&256_u32.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.checksum);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[self.is_encrypt, self.is_checksum, self.model_type.to_byte(), self.gen_mode]);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&self.ops.to_le_bytes());
        out.extend_from_slice(&self.user_define_info);
        out.extend_from_slice(&self.om_ir_version.to_le_bytes());
        out.extend_from_slice(&self.model_num.to_le_bytes());
        out.extend_from_slice(&self.platform_version);
        out.push(self.platform_type);
        out.extend_from_slice(&self.padding);
        out.extend_from_slice(&self.model_length.to_le_bytes());
        out.extend_from_slice(&[self.need_check_os_cpu_info, self.is_unknow_model]);
        out.extend_from_slice(&self.reserved);
        let mut bytes = [0; HEADER_LEN];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// The model's name as text.
    #[must_use]
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// Sets the model's name, truncated to 32 bytes (MODEL_DEF has the full name).
    pub fn set_name(&mut self, name: &str) {
        self.name = padded(name);
    }

    /// The platform version as text.
    #[must_use]
    pub fn platform_version(&self) -> String {
        text(&self.platform_version)
    }

    /// Sets the platform version, truncated to 20 bytes.
    pub fn set_platform_version(&mut self, version: &str) {
        self.platform_version = padded(version);
    }

    /// The digest field as text.
    #[must_use]
    pub fn checksum(&self) -> String {
        text(&self.checksum)
    }

    /// The format version in the mark of our files: `None` if there is no mark, `Some(None)` if the
    /// mark is damaged.
    pub(crate) fn mark(&self) -> Option<Option<u32>> {
        let rest = self.user_define_info.strip_prefix(MARK)?;
        Some(text(rest).parse().ok())
    }

    /// Marks the file as one of ours.
    pub(crate) fn set_mark(&mut self, format_version: u32) {
        let mark = format!("{}{format_version}", String::from_utf8_lossy(MARK));
        self.user_define_info = padded(&mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_header_survives() {
        let mut bytes = [0_u8; HEADER_LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at * 7 + 3) as u8;
        }
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&256_u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION_2.to_le_bytes());
        assert_eq!(Header::decode(&bytes).unwrap().encode(), bytes);
    }

    #[test]
    fn fields_stand_at_their_published_places() {
        let mut header = Header { model_num: 0x0102_0304, model_length: 0x1122_3344_5566_7788, ..Header::default() };
        header.is_unknow_model = 9;
        header.set_name("a name that is longer than thirty-two bytes by far");
        header.set_platform_version("7.8.9");
        let bytes = header.encode();
        assert_eq!(&bytes[..12], b"IMOD\x00\x01\x00\x00\x00\x00\x00\x20");
        assert_eq!(bytes[82], 1);
        assert_eq!(&bytes[84..116], b"a name that is longer than thirt");
        assert_eq!(&bytes[156..160], &[4, 3, 2, 1]);
        assert_eq!(&bytes[160..166], b"7.8.9\0");
        assert_eq!(&bytes[184..192], &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(bytes[193], 9);
    }

    #[test]
    fn names_are_cut_between_characters() {
        let mut header = Header::default();
        header.set_name(&"ü".repeat(17).replacen('ü', "xü", 1));
        assert_eq!(header.name().len(), 31);
    }

    #[test]
    fn wrong_starts_are_told_apart() {
        assert!(matches!(Header::decode(b"ONNX, really"), Err(OmError::BadMagic { .. })));
        assert!(matches!(Header::decode(b"IMOD"), Err(OmError::Truncated { needed: 256, available: 4, .. })));
        assert!(matches!(Header::decode(b""), Err(OmError::Truncated { available: 0, .. })));
        let mut bytes = Header::default().encode();
        bytes[11] = 0x30;
        assert!(matches!(Header::decode(&bytes), Err(OmError::UnsupportedVersion { found: 0x3000_0000 })));
        bytes[4] = 1;
        assert!(matches!(Header::decode(&bytes), Err(OmError::BadHeader { field: "headsize", found: 257, .. })));
    }
}
