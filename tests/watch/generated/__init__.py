"""The proof of watching: random projects and edits, compared with a fresh run of all cases."""
