//! Files that tests make: ONNX models byte by byte, and arrays.

/// A protobuf number of variable length.
pub fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n > 127 {
        out.push(n as u8 | 128);
        n >>= 7;
    }
    out.push(n as u8);
    out
}
/// A field with a number.
pub fn number(field: u64, n: u64) -> Vec<u8> {
    [varint(field << 3), varint(n)].concat()
}
/// A field with bytes.
pub fn bytes(field: u64, b: impl AsRef<[u8]>) -> Vec<u8> {
    [varint(field << 3 | 2), varint(b.as_ref().len() as u64), b.as_ref().to_vec()].concat()
}
/// A node of a graph, named like its output.
pub fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let ins = inputs.iter().flat_map(|i| bytes(1, i)).collect::<Vec<u8>>();
    bytes(1, [ins, bytes(2, output), bytes(3, output), bytes(4, op)].concat())
}
/// A graph's input (11) or output (12) of f32.
pub fn value(field: u64, name: &str, dims: &[u64]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|d| bytes(1, number(1, *d))).collect::<Vec<u8>>();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, [number(1, 1), bytes(2, dims)].concat()))].concat())
}
/// A node of a graph with a domain and a name of its own.
pub fn named_node(name: &str, domain: &str, op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let ins = inputs.iter().flat_map(|i| bytes(1, i)).collect::<Vec<u8>>();
    bytes(1, [ins, bytes(2, output), bytes(3, name), bytes(4, op), bytes(7, domain)].concat())
}
/// A graph's input (11) or output (12) of any element type.
pub fn typed(field: u64, name: &str, elem: u64, dims: &[u64]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|d| bytes(1, number(1, *d))).collect::<Vec<u8>>();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, [number(1, elem), bytes(2, dims)].concat()))].concat())
}
/// A model of this opset, and of version 3 of the domain `ai.acme`.
pub fn model(opset: u64, graph: &[Vec<u8>]) -> Vec<u8> {
    let graph = [bytes(2, "g"), graph.concat()].concat();
    let own = bytes(8, [bytes(1, "ai.acme"), number(2, 3)].concat());
    [number(1, 8), bytes(7, graph), bytes(8, [bytes(1, ""), number(2, opset)].concat()), own].concat()
}

/// A `.npy` file.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut h = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (11 + h.len()) % 64 != 0 {
        h.push(' ');
    }
    h.push('\n');
    [b"\x93NUMPY\x01\x00".to_vec(), (h.len() as u16).to_le_bytes().to_vec(), h.into_bytes(), data.to_vec()].concat()
}
/// The bytes of f32 numbers, little-endian.
pub fn f32s(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
/// The data of a `.npy` file as f32.
pub fn read_f32s(bytes: &[u8]) -> Vec<f32> {
    let at = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[at..].chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}
/// An archive of stored arrays, as `numpy.savez` writes it.
pub fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut list) = (Vec::new(), Vec::new());
    for (name, data) in arrays {
        let name = format!("{name}.npy");
        let size = (data.len() as u32).to_le_bytes();
        let lens = [(name.len() as u16).to_le_bytes(), [0, 0]].concat();
        let common = [&[0; 6][..], &crc(data).to_le_bytes(), &size, &size, &lens].concat();
        let at = (out.len() as u32).to_le_bytes();
        list.extend([b"PK\x01\x02\x14\0\x14\0\0\0".as_slice(), &common, &[0; 10], &at, name.as_bytes()].concat());
        out.extend([b"PK\x03\x04\x14\0\0\0".as_slice(), &common, name.as_bytes(), data].concat());
    }
    let (begin, length) = ((out.len() as u32).to_le_bytes(), (list.len() as u32).to_le_bytes());
    let count = (arrays.len() as u16).to_le_bytes();
    [out, list, [b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &length, &begin, &[0, 0]].concat()].concat()
}
/// The CRC-32 of bytes.
pub fn crc(b: &[u8]) -> u32 {
    let mut c = u32::MAX;
    for v in b {
        c ^= u32::from(*v);
        (0..8).for_each(|_| c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 });
    }
    !c
}
