package task

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
)

// ParseAttachments reads the `attachments` header: a one-line JSON array. An
// element counts when it is an object with a non-empty string locator; its
// other fields count when they have the right kind. A header that is not
// such an array means no attachments, never an error: the text of the task
// names the files too.
func ParseAttachments(value string) []Attachment {
	if clean(value) == "" {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(value))
	dec.UseNumber()
	var elements []any
	if err := dec.Decode(&elements); err != nil {
		return nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil
	}
	var out []Attachment
	for _, element := range elements {
		fields, ok := element.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string {
			s, _ := fields[key].(string)
			return s
		}
		a := Attachment{
			Locator: text("locator"), ID: text("id"), MIME: text("mime"), Filename: text("filename"),
			SHA256: text("sha256"), Expiry: text("expiry"), Size: attachmentSize(fields["size"]),
		}
		if a.Locator != "" {
			out = append(out, a)
		}
	}
	return out
}

// attachmentSize is 0, which means unknown, for everything that is not a
// count: booleans, negative numbers, numbers beyond int64.
func attachmentSize(v any) int64 {
	var digits string
	switch v := v.(type) {
	case json.Number:
		digits = v.String()
	case string:
		digits = clean(v)
	default:
		return 0
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return max(n, 0)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f > 0 && f < math.MaxInt64) {
		return 0
	}
	return int64(f)
}

// formatAttachments writes what ParseAttachments reads.
func formatAttachments(list []Attachment) string {
	type element struct {
		Locator  string `json:"locator"`
		ID       string `json:"id,omitempty"`
		MIME     string `json:"mime,omitempty"`
		Filename string `json:"filename,omitempty"`
		SHA256   string `json:"sha256,omitempty"`
		Expiry   string `json:"expiry,omitempty"`
		Size     int64  `json:"size"`
	}
	elements := make([]element, 0, len(list))
	for _, a := range list {
		elements = append(elements, element(a))
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(elements); err != nil {
		return "[]" // unreachable: strings and integers always encode
	}
	return strings.TrimSuffix(buf.String(), "\n")
}
