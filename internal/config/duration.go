package config

import (
	"fmt"
	"time"
)

// Duration is a length of time as people write it: "30m", "1h30m". It is a
// struct so that a bare number in a file, whose unit nobody can know, is never
// taken for nanoseconds. It is also a flag value.
type Duration struct{ time.Duration }

// UnmarshalText reads what [time.ParseDuration] reads, and "0"; negative
// lengths are refused.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no length of time; write it with its unit, such as \"30s\", \"10m\" or \"6h\"", text)
	}
	if v < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	d.Duration = v
	return nil
}

// MarshalText is the shortest way of writing d, "1h" rather than "1h0m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String is the shortest way of writing d.
func (d Duration) String() string {
	s := d.Duration.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if len(s) > len(zero) && s[len(s)-len(zero):] == zero {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Set makes Duration a flag value.
func (d *Duration) Set(s string) error { return d.UnmarshalText([]byte(s)) }

// Type names the value in a flag's help.
func (d *Duration) Type() string { return "duration" }
