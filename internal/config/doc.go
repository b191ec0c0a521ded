// Package config turns a TOML file, flags and the environment into the settled
// configuration of the service: every value known, every path absolute, every
// mistake named with its place in the file.
//
// It owns the names of the keys, their defaults and where each value came from.
// It never creates or changes a file, never starts anything, and knows nothing
// of the packages that the values are for: words such as sandbox modes are
// checked here against their own lists and converted by cmd.
//
// # Precedence
//
// Flag, then environment, then the [[workdir]] table, then [defaults], then the
// built-in default. The environment matters only for the socket and for where
// state dirs go.
//
// # Relative paths
//
// In a file: tasks, results, cwd, hmac_key and attachment_roots start at the
// work dir they belong to, so that [defaults] can say tasks = "inbox" for all;
// everything else starts at the file's directory. In flags: at the current
// directory. "~/" is the home directory everywhere.
package config
