package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// settler makes a Config of what was written. It collects mistakes instead of
// ending at the first: whoever mends a file wants to see them all.
type settler struct {
	doc    *document
	flags  Overlay
	env    func(string) string
	home   string
	uid    int
	config *Config
	tables []string // of config.WorkDirs in the file: workdir[0]
	errs   Errors
}

func settle(doc *document, flags Overlay, env func(string) string, uid int) (*Config, error) {
	s := &settler{
		doc: doc, flags: flags, env: env, home: env("HOME"), uid: uid,
		config: &Config{File: doc.file, Warnings: slices.Clone(doc.warnings)},
	}
	if !filepath.IsAbs(s.home) {
		s.home = ""
	}
	s.service()
	s.workDirs()
	s.tiers()
	if len(s.errs) > 0 {
		slices.SortStableFunc(s.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		return nil, s.errs
	}
	return s.config, nil
}

// found is a value's origin, kept for the list of settings and for complaints.
type found struct {
	path   string // as in document.places
	key    string
	origin Origin
	where  string
	at     place
}

// fail complains about a value where it was written.
func (s *settler) fail(f found, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	switch f.origin {
	case FromFile:
		s.errs = append(s.errs, s.doc.errorAt(f.at.value, f.path, message))
	case FromFlag, FromEnv:
		s.errs = append(s.errs, &Error{Key: f.key, Message: f.where + ": " + message})
	case FromDefault:
		e := s.doc.errorAt(f.at.key, f.path, message)
		s.errs = append(s.errs, e)
	}
}

func (s *settler) warn(format string, args ...any) {
	s.config.Warnings = append(s.config.Warnings, fmt.Sprintf(format, args...))
}

func (s *settler) inFile(path, key string) found {
	at := s.doc.places[path]
	return found{path: path, key: key, origin: FromFile, where: fmt.Sprintf("%s:%d", s.doc.file, at.key.line), at: at}
}

func (s *settler) note(f found, name string, value any) {
	s.config.settings = append(s.config.settings, Setting{Key: name, Value: value, Origin: f.origin, Where: f.where})
}

// flagName is the flag that sets a key.
func flagName(key string) string {
	if key == "path" {
		return "--work"
	}
	return "--" + strings.NewReplacer("_", "-", ".", "-").Replace(key)
}

// plain settles a key that stands outside work dirs and tiers.
func plain[T any](s *settler, key string, fallback T, flag, file *T) (T, found) {
	value, f := fallback, found{path: key, key: key, origin: FromDefault}
	switch {
	case flag != nil:
		value, f = *flag, found{path: key, key: key, origin: FromFlag, where: flagName(key)}
	case file != nil:
		value, f = *file, s.inFile(key, key)
	}
	return value, f
}

func (s *settler) service() {
	c, k, flags := s.config, &s.doc.keys, &s.flags
	var f found

	c.Listen, f = plain(s, "listen", DefaultListen, flags.Listen, k.Listen)
	s.listen(f)
	s.note(f, "listen", c.Listen)

	s.socket()

	c.Log.Level, f = plain(s, "log.level", LogInfo, flags.LogLevel, k.Log.Level)
	s.word(f, c.Log.Level, LogDebug, LogInfo, LogWarn, LogError)
	s.note(f, "log.level", c.Log.Level)

	c.Log.Format, f = plain(s, "log.format", LogAuto, flags.LogFormat, k.Log.Format)
	s.word(f, c.Log.Format, LogAuto, LogText, LogJSON)
	s.note(f, "log.format", c.Log.Format)

	c.Web.ShowText, f = plain(s, "web.show_text", false, flags.ShowText, k.Web.ShowText)
	s.note(f, "web.show_text", c.Web.ShowText)

	drain, f := plain(s, "drain_timeout", Duration{DefaultDrainTimeout}, flags.DrainTimeout, k.DrainTimeout)
	c.DrainTimeout = drain.Duration
	s.note(f, "drain_timeout", drain)
}

// listen checks the address. "off" and "" are nothing to listen on.
func (s *settler) listen(f found) {
	c := s.config
	if c.Listen == "off" || c.Listen == "" {
		c.Listen = ""
		return
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "" {
		s.fail(f, "listen %q is no address; write host:port such as %q, or \"off\"", c.Listen, DefaultListen)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		s.fail(f, "listen %q has no valid port", c.Listen)
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		s.warn("listen %s is not loopback: anyone who reaches it sees metrics and the status page", c.Listen)
	}
}

// socket settles the control socket. The environment stands above the file
// here, as for clients, so that one variable moves both ends.
func (s *settler) socket() {
	path, f := plain(s, "socket", "", s.flags.Socket, s.doc.keys.Socket)
	if v := s.env(EnvSocket); v != "" && f.origin != FromFlag {
		path, f = v, found{key: "socket", origin: FromEnv, where: "$" + EnvSocket}
	}
	if f.origin == FromDefault {
		var variable string
		path, variable = defaultSocket(s.env, s.uid)
		if variable != "" {
			f.origin, f.where = FromEnv, "$"+variable
		}
	}
	s.config.Socket = s.absolute(f, path, s.base(f))
	// sockaddr_un holds 108 bytes with its NUL on Linux, 104 on macOS.
	if len(s.config.Socket) > 103 {
		s.fail(f, "socket path is %d bytes long, the system takes 103: %s", len(s.config.Socket), s.config.Socket)
	}
	s.note(f, "socket", s.config.Socket)
}

// base is where a relative path starts that is not bound to a work dir.
func (s *settler) base(f found) string {
	if f.origin == FromFile {
		return filepath.Dir(s.doc.file)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		s.fail(f, "find the current directory: %v", err)
	}
	return here
}

func (s *settler) absolute(f found, path, base string) string {
	if path == "" {
		s.fail(f, "%s is empty", f.key)
		return ""
	}
	abs, err := absolute(path, base, s.home)
	if err != nil {
		s.fail(f, "%s: %v", f.key, err)
	}
	return abs
}

// word checks a value that is one of a few.
func (s *settler) word(f found, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	last := len(quoted) - 1
	s.fail(f, "%s %q is unknown; want %s or %s", f.key, value, strings.Join(quoted[:last], ", "), quoted[last])
}

// anyWorkDirKey returns the first key of k that is set, path excepted.
func anyWorkDirKey(k *WorkDirKeys) string {
	v := reflect.ValueOf(k).Elem()
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("toml"); tag != "path" && !v.Field(i).IsNil() {
			return tag
		}
	}
	return ""
}
