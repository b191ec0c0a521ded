//go:build !linux

package doctor

func sandboxHint() string { return "run `codex sandbox -- true` by hand as this user" }
