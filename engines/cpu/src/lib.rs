//! The AI CPU and host CPU engines: every operator, plainly and rightly.
