package stubserver

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// config is what is in force: config.toml, with the command line over it.
type config struct {
	values object
	// flags alone, for when the file is broken.
	flags object
}

// brokenConfig is a config.toml that does not load. It does not keep the
// app-server from starting.
type brokenConfig struct {
	path      string
	line, col int
	message   string
}

func (b *brokenConfig) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", b.path, b.line, b.col, b.message)
}

// readConfig loads CODEX_HOME/config.toml and the -c flags, and refuses what
// Codex refuses to start with.
func readConfig(home string, args []string) (config, error) {
	c := config{flags: object{}}
	for i, a := range args {
		if a == "--" {
			break
		}
		if (a == "-c" || a == "--config") && i+1 < len(args) {
			merge(c.flags, parseFlag(args[i+1]))
		}
	}
	values, err := c.load(home)
	var broken *brokenConfig
	if errors.As(err, &broken) {
		values = c.flags
	}
	c.values = values
	if _, ok := values["permissions"]; ok && c.text("default_permissions") == "" {
		return c, errors.New("config defines `[permissions]` profiles but does not set `default_permissions`")
	}
	if _, err := resolveProfile(values, ""); err != nil {
		return c, err
	}
	return c, nil
}

// load reads the file anew: it may have changed since the start.
func (c config) load(home string) (object, error) {
	path := filepath.Join(home, "config.toml")
	values := object{}
	raw, err := os.ReadFile(path)
	if err == nil {
		if err := toml.Unmarshal(raw, &values); err != nil {
			broken := &brokenConfig{path: path, line: 1, col: 1, message: err.Error()}
			var decode *toml.DecodeError
			if errors.As(err, &decode) {
				broken.line, broken.col = decode.Position()
			}
			return nil, broken
		}
	}
	merge(values, c.flags)
	return values, nil
}

func (c config) text(key string) string {
	s, _ := c.values[key].(string)
	return s
}

// parseFlag reads key=value; a value that is no TOML is taken as a string.
func parseFlag(flag string) object {
	key, value, _ := strings.Cut(flag, "=")
	values := object{}
	if toml.Unmarshal([]byte(key+" = "+value), &values) == nil {
		return values
	}
	values = object{}
	if toml.Unmarshal([]byte(key+" = "+fmt.Sprintf("%q", value)), &values) == nil {
		return values
	}
	return object{}
}

// merge lays one table over another.
func merge(under, over object) {
	for k, v := range over {
		a, aTable := under[k].(map[string]any)
		b, bTable := v.(map[string]any)
		if aTable && bTable {
			a = maps.Clone(a)
			merge(a, b)
			under[k] = a
			continue
		}
		under[k] = v
	}
}

// withThread is the configuration of one thread: its own values lie on top.
func (s *Server) withThread(own map[string]any) (object, *fault) {
	values, err := s.config.load(s.home)
	if err != nil {
		return nil, invalid("failed to load configuration: %v", err)
	}
	merge(values, own)
	return values, nil
}

func (s *Server) configRead() (object, *fault) {
	values, err := s.config.load(s.home)
	if err != nil {
		return nil, refuse(codeInternal, "failed to read configuration layers: %v", err)
	}
	servers := object{}
	if table, ok := values["mcp_servers"].(map[string]any); ok {
		for name, v := range table {
			server := object{"enabled": true, "args": []any{}}
			if t, ok := v.(map[string]any); ok {
				merge(server, t)
			}
			servers[name] = server
		}
	}
	shown := object{"model": stubModel, "model_provider": stubProvider}
	merge(shown, values)
	shown["mcp_servers"] = servers
	return object{"config": shown, "origins": object{}}, nil
}

// warnings are what follows on the answer to initialize.
func (s *Server) warnings() {
	_, err := s.config.load(s.home)
	var broken *brokenConfig
	if errors.As(err, &broken) {
		at := object{"line": broken.line, "column": broken.col}
		s.notify("configWarning", object{
			"summary": "Invalid configuration; using defaults.", "details": broken.Error(), "path": broken.path,
			"range": object{"start": at, "end": at},
		})
	}
	s.notify("configWarning", object{
		"summary": "Codex could not find bubblewrap on PATH. Codex will use the bundled bubblewrap in the meantime.", "details": nil,
	})
	s.notify("remoteControl/status/changed", object{
		"status": "disabled", "serverName": "stub", "installationId": newID(), "environmentId": nil,
	})
}
