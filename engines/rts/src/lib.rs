//! Run-time services: streams, labels, events, copies.
