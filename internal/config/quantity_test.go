package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]struct {
		value time.Duration
		text  string
	}{
		"30m":   {30 * time.Minute, "30m"},
		"90s":   {90 * time.Second, "1m30s"},
		"2160h": {2160 * time.Hour, "2160h"},
		"1h30s": {time.Hour + 30*time.Second, "1h0m30s"},
		"10m0s": {10 * time.Minute, "10m"},
		"250ms": {250 * time.Millisecond, "250ms"},
		"0":     {0, "0s"},
	} {
		var d config.Duration
		if err := d.Set(text); err != nil || d.Duration != want.value || d.String() != want.text {
			t.Errorf("%q is %v, %v, %s; want %v, %s", text, d.Duration, err, d, want.value, want.text)
		}
		var again config.Duration
		if out, err := d.MarshalText(); err != nil || again.UnmarshalText(out) != nil || again != d {
			t.Errorf("%q does not come back: %s", text, out)
		}
	}
	for _, text := range []string{"", "30", "-1s", "1 h", "1y"} {
		d := config.Duration{Duration: 7}
		if err := d.Set(text); err == nil || d.Duration != 7 {
			t.Errorf("%q is taken as %v", text, d)
		}
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]struct {
		value int64
		text  string
	}{
		"49152":      {49152, "48KiB"},
		"48KiB":      {48 << 10, "48KiB"},
		"48 KiB":     {48 << 10, "48KiB"},
		"49_152":     {49152, "48KiB"},
		"1MB":        {1e6, "1000000"},
		"2kB":        {2000, "2000"},
		"3GiB":       {3 << 30, "3GiB"},
		"1TB":        {1e12, "976562500KiB"},
		"5B":         {5, "5"},
		"0":          {0, "0"},
		"8388607TiB": {8388607 << 40, "8388607TiB"},
	} {
		var b config.ByteSize
		if err := b.Set(text); err != nil || b.Bytes != want.value || b.String() != want.text {
			t.Errorf("%q is %d, %v, %s; want %d, %s", text, b.Bytes, err, b, want.value, want.text)
		}
		var again config.ByteSize
		if out, err := b.MarshalText(); err != nil || again.UnmarshalText(out) != nil || again != b {
			t.Errorf("%q does not come back: %s", text, out)
		}
	}
	for _, text := range []string{"", "KiB", "1.5MiB", "-1", "1 cow", "8388608TiB", "99999999999999999999"} {
		b := config.ByteSize{Bytes: 7}
		if err := b.Set(text); err == nil || b.Bytes != 7 {
			t.Errorf("%q is taken as %d", text, b.Bytes)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]config.Rate{
		"1/s": {1, time.Second}, "6 / m": {6, time.Minute}, "30/h": {30, time.Hour}, "100/d": {100, 24 * time.Hour},
	} {
		var r, again config.Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q is %+v, %v; want %+v", text, r, err, want)
		}
		out, err := r.MarshalText()
		if err != nil || string(out) != strings.ReplaceAll(text, " ", "") || again.UnmarshalText(out) != nil || again != r {
			t.Errorf("%q comes back as %q", text, out)
		}
	}
	for _, text := range []string{"", "5", "0/s", "-1/m", "1.5/h", "1/w", "/s"} {
		var r config.Rate
		if err := r.UnmarshalText([]byte(text)); err == nil || r != (config.Rate{}) {
			t.Errorf("%q is taken as %+v", text, r)
		}
	}
	if s := (config.Rate{}).String(); s != "" {
		t.Errorf("no rate is %q", s)
	}
}

func TestFlagTypes(t *testing.T) {
	if d, b := new(config.Duration).Type(), new(config.ByteSize).Type(); d != "duration" || b != "size" {
		t.Errorf("types %q and %q", d, b)
	}
}
