//! The OM file: header, partitions, payloads, checksum; reader and writer.
