//! The border: stable ABI, safe traits, graph views, diagnostics and services for plugins of ge.
