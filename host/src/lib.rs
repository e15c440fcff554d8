//! The ge host: session, GraphManager and commands.
