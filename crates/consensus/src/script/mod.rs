//! Placeholder until the script verifier's first commit.
