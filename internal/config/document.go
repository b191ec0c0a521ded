package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a file that was read: its keys and where each one stands.
type document struct {
	file     string // absolute
	lines    []string
	keys     fileKeys
	places   map[string]place // by path, such as workdir[0].sandbox
	warnings []string
}

// place is where a key and its value stand.
type place struct{ key, value span }

// span is a run of bytes in one line.
type span struct{ line, column, length int }

// maxFile is far above any real configuration; a larger file is another one.
const maxFile = 1 << 20

func parseDocument(name string, text []byte) (*document, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxFile {
		return nil, Errors{{File: abs, Message: fmt.Sprintf("the file has %d bytes; no configuration is longer than %d", len(text), maxFile)}}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	d := &document{file: abs, places: map[string]place{}}
	for line := range strings.Lines(string(text)) {
		d.lines = append(d.lines, strings.TrimRight(line, "\r\n"))
	}
	// First as TOML of any shape, so that a mistake of syntax is told without
	// the shape getting in its way.
	var anything map[string]any
	if err := toml.Unmarshal(text, &anything); err != nil {
		return nil, Errors{d.decodeError(err)}
	}
	in := inspector{doc: d, counts: map[string]int{}, starts: []int{0}}
	if in.inspect(text); len(in.errs) > 0 {
		return nil, in.errs
	}
	// The inspector knows the keys by the same struct, so the decoder has
	// little left to object to; where it does, it is heard.
	decoder := toml.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d.keys); err != nil {
		return nil, Errors{d.decodeError(err)}
	}
	return d, nil
}

func (d *document) decodeError(err error) *Error {
	var strict *toml.StrictMissingError
	var at *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		at = &strict.Errors[0]
	case errors.As(err, &at):
	default:
		return &Error{File: d.file, Message: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	line, column := at.Position()
	return d.errorAt(span{line, column, 1}, strings.Join(at.Key(), "."), strings.TrimPrefix(at.Error(), "toml: "))
}

func (d *document) errorAt(s span, key, message string) *Error {
	e := &Error{File: d.file, Line: s.line, Column: s.column, Length: s.length, Key: key, Message: message}
	if s.line > 0 && s.line <= len(d.lines) {
		e.Source = d.lines[s.line-1]
		e.Length = max(1, min(e.Length, len(e.Source)-e.Column+1))
	}
	return e
}

// inspector walks the syntax tree beside the structs the decoder will fill, to
// know where everything stands and to name what is wrong in the words of the
// file rather than of Go.
type inspector struct {
	doc    *document
	parser unstable.Parser
	counts map[string]int // tables seen of each [[array]]
	starts []int          // offset of each line
	errs   Errors
}

func (in *inspector) inspect(text []byte) {
	for i, c := range text {
		if c == '\n' {
			in.starts = append(in.starts, i+1)
		}
	}
	in.parser.Reset(text)
	path, typ := "", reflect.TypeFor[fileKeys]()
	for in.parser.NextExpression() {
		switch e := in.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, typ = in.header(e)
		case unstable.KeyValue:
			in.keyValue(path, typ, e)
		default: // comments
		}
	}
}

// header returns the table that a [header] opens; a nil type is one that was
// complained about and whose keys are not looked at.
func (in *inspector) header(e *unstable.Node) (string, reflect.Type) {
	path, typ := "", reflect.TypeFor[fileKeys]()
	parts := e.Key()
	for parts.Next() {
		last := parts.IsLast()
		path, typ = in.step(path, typ, parts.Node())
		if typ == nil {
			return path, nil
		}
		if last && isTables(typ) != (e.Kind == unstable.ArrayTable) && typ.Kind() != reflect.Interface {
			want := "[" + path + "]"
			if isTables(typ) {
				want = "[[" + path + "]]"
			}
			in.fail(in.span(parts.Node()), path, "write "+want+" here")
			return path, nil
		}
		if isTables(typ) {
			if last {
				in.counts[path]++
			}
			path = fmt.Sprintf("%s[%d]", path, max(0, in.counts[path]-1))
			in.doc.places[path] = place{key: in.span(parts.Node())}
			typ = typ.Elem()
		} else if last {
			at := in.span(parts.Node())
			in.doc.places[path] = place{key: at, value: at}
		}
	}
	return path, typ
}

// step goes from a table into one of its keys.
func (in *inspector) step(path string, typ reflect.Type, key *unstable.Node) (string, reflect.Type) {
	name := string(key.Data)
	below := name
	if path != "" {
		below = path + "." + name
	}
	if typ.Kind() == reflect.Interface {
		return below, typ // a table whose keys are the user's own
	}
	if typ.Kind() != reflect.Struct || isText(typ) {
		in.fail(in.span(key), below, fmt.Sprintf("%s has no keys below it", path))
		return below, nil
	}
	names := make([]string, 0, typ.NumField())
	for field := range typ.Fields() {
		tag := field.Tag.Get("toml")
		if tag == name {
			return below, indirect(field.Type)
		}
		names = append(names, tag)
	}
	message := fmt.Sprintf("unknown key %q", name)
	if path != "" {
		message += " in " + path
	}
	if near := nearest(name, names); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	in.fail(in.span(key), below, message)
	return below, nil
}

func (in *inspector) keyValue(path string, typ reflect.Type, e *unstable.Node) {
	if typ == nil {
		return
	}
	var at place
	parts := e.Key()
	for parts.Next() {
		path, typ = in.step(path, typ, parts.Node())
		if typ == nil {
			return
		}
		at.key = in.span(parts.Node())
	}
	at.value = in.span(e.Value())
	if at.value.length == 0 {
		at.value = at.key
	}
	in.doc.places[path] = at
	in.value(path, typ, at, e.Value())
}

// value checks that a value is of the kind that its key wants.
func (in *inspector) value(path string, typ reflect.Type, at place, v *unstable.Node) {
	wrong := func(want string) {
		in.fail(at.value, path, fmt.Sprintf("%s wants %s", lastPart(path), want))
	}
	switch {
	case typ.Kind() == reflect.Interface:
	case isText(typ):
		if v.Kind != unstable.String && v.Kind != unstable.Integer {
			wrong("text such as " + example(typ))
			return
		}
		into := reflect.New(typ).Interface().(encoding.TextUnmarshaler)
		if err := into.UnmarshalText(v.Data); err != nil {
			in.fail(at.value, path, lastPart(path)+": "+err.Error())
		}
	case typ.Kind() == reflect.String && v.Kind != unstable.String:
		wrong("a string")
	case typ.Kind() == reflect.Bool && v.Kind != unstable.Bool:
		wrong("true or false")
	case typ.Kind() == reflect.Int && v.Kind != unstable.Integer:
		wrong("a whole number")
	case typ.Kind() == reflect.Struct:
		if v.Kind != unstable.InlineTable {
			in.fail(at.key, path, fmt.Sprintf("%s is a table: write [%s] and its keys below", path, path))
			return
		}
		in.inline(path, typ, v)
	case isTables(typ):
		if v.Kind != unstable.Array {
			in.fail(at.key, path, fmt.Sprintf("%s is a list of tables: write [[%s]] and its keys below", path, path))
			return
		}
		for children := v.Children(); children.Next(); {
			if children.Node().Kind != unstable.InlineTable {
				wrong("a list of tables")
				return
			}
			child := fmt.Sprintf("%s[%d]", path, in.counts[path])
			in.counts[path]++
			in.doc.places[child] = at
			in.inline(child, typ.Elem(), children.Node())
		}
	case typ.Kind() == reflect.Slice:
		if v.Kind != unstable.Array {
			wrong("a list of strings")
			return
		}
		for children := v.Children(); children.Next(); {
			if k := children.Node().Kind; k != unstable.String && k != unstable.Comment {
				wrong("a list of strings")
				return
			}
		}
	}
}

func (in *inspector) inline(path string, typ reflect.Type, table *unstable.Node) {
	for children := table.Children(); children.Next(); {
		if children.Node().Kind == unstable.KeyValue {
			in.keyValue(path, typ, children.Node())
		}
	}
}

func (in *inspector) fail(at span, key, message string) {
	in.errs = append(in.errs, in.doc.errorAt(at, key, message))
}

func (in *inspector) span(n *unstable.Node) span {
	if n.Raw.Length == 0 {
		return span{}
	}
	// The parser's own Shape counts lines from the top for every node.
	offset := int(n.Raw.Offset)
	line, exact := slices.BinarySearch(in.starts, offset)
	if !exact {
		line--
	}
	return span{line + 1, offset - in.starts[line] + 1, int(n.Raw.Length)}
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isTables(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func example(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ByteSize]():
		return `"48KiB"`
	case reflect.TypeFor[Rate]():
		return `"30/h"`
	}
	return `"30m"`
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// nearest is the known name within two edits of name, or "".
func nearest(name string, known []string) string {
	best, found := 3, ""
	for _, k := range known {
		if d := edits(name, k); d < best {
			best, found = d, k
		}
	}
	return found
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
