//! The text form of the IR (`.ge`): lexer, parser, printer.
