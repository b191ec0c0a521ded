//go:build !linux

package threads

// lockHolder cannot be told off Linux.
func lockHolder(string, string) int { return 0 }
