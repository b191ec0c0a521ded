package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes, written plain or with a unit: 49152, "48KiB",
// "2GB". KB is 1000 bytes and KiB 1024, as everywhere but in memory shops. It
// is also a flag value.
type ByteSize struct{ Bytes int64 }

var byteUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// UnmarshalText reads a whole number with one of the units B, KB, MB, GB, TB,
// KiB, MiB, GiB, TiB, or none.
func (b *ByteSize) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	unit := int64(1)
	for _, u := range byteUnits {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no size; write a whole number of bytes, or such as \"48KiB\" or \"2GiB\"", text)
	case n < 0:
		return fmt.Errorf("%q is negative", text)
	case n > math.MaxInt64/unit:
		return fmt.Errorf("%q is more than any disk holds", text)
	}
	b.Bytes = n * unit
	return nil
}

// MarshalText writes b with the largest binary unit that needs no fraction.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String writes b with the largest binary unit that needs no fraction.
func (b ByteSize) String() string {
	if b.Bytes != 0 {
		for _, u := range byteUnits[:4] {
			if b.Bytes%u.bytes == 0 {
				return strconv.FormatInt(b.Bytes/u.bytes, 10) + u.name
			}
		}
	}
	return strconv.FormatInt(b.Bytes, 10)
}

// Set makes ByteSize a flag value.
func (b *ByteSize) Set(s string) error { return b.UnmarshalText([]byte(s)) }

// Type names the value in a flag's help.
func (b *ByteSize) Type() string { return "size" }
