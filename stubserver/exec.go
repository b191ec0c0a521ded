package stubserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// commandExec plays a profile's verdict on one command. Nothing is run: the stub
// confines nothing, so all it knows is `cat FILE...`, which reads files under the
// cwd - any file with full access -, and everything else is denied with status 1.
func (s *Server) commandExec(m incoming) {
	var p struct {
		Command           []string `json:"command"`
		Cwd               string   `json:"cwd"`
		PermissionProfile *string  `json:"permissionProfile"`
	}
	f := required(m.Params, "command")
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	if f == nil && p.PermissionProfile != nil && !s.experimental {
		f = experimental("command/exec.permissionProfile")
	}
	if f == nil && len(p.Command) == 0 {
		f = invalid("command must not be empty")
	}
	name := ""
	if p.PermissionProfile != nil {
		name = *p.PermissionProfile
	}
	values, loadFault := s.withThread(nil)
	if f == nil {
		f = loadFault
	}
	profile, err := resolveProfile(values, name)
	if f == nil && err != nil {
		f = invalid("invalid permission profile: %v", err)
	}
	switch s.env[envExec] {
	case "mute":
		return
	case "error":
		f = refuse(codeInternal, "failed to spawn command: Resource temporarily unavailable (os error 11)")
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	status, out, errs := pretend(p.Command, p.Cwd, profile, s.env[envExec])
	s.reply(m.ID, object{"exitCode": status, "stdout": out, "stderr": errs})
}

// pretend is what a command would say and end with under a profile.
func pretend(command []string, cwd string, p policy, misbehaviour string) (status int, stdout, stderr string) {
	if filepath.Base(command[0]) != "cat" {
		return exitError, "", command[0] + ": Permission denied\n"
	}
	for _, path := range command[1:] {
		readable := p.Kind == sandboxFullAccess || under(path, cwd)
		switch misbehaviour {
		case "open":
			readable = true
		case "blind":
			readable = false
		}
		raw, err := os.ReadFile(path)
		if !readable || err != nil {
			status = exitError
			stderr += "cat: " + path + ": No such file or directory\n"
			continue
		}
		stdout += string(raw)
	}
	return status, stdout, stderr
}

func under(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// sandboxVerb plays `codex sandbox -P PROFILE [-c k=v] [-C DIR] -- COMMAND`.
func sandboxVerb(args []string, env environment, stdout, stderr io.Writer) int {
	name, cwd := "", "."
	var command []string
	for i := 0; i < len(args); i++ {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch args[i] {
		case "-P", "--permissions-profile":
			name = next
			i++
		case "-C", "--cd":
			cwd = next
			i++
		case "-c", "--config":
			i++
		case "--":
			command = args[i+1:]
			i = len(args)
		}
	}
	c, err := readConfig(env.home(), args)
	var p policy
	if err == nil {
		p, err = resolveProfile(c.values, name)
	}
	if err == nil && len(command) == 0 {
		err = errors.New("no command given")
	}
	if err == nil {
		cwd, err = filepath.Abs(cwd)
	}
	if err != nil {
		fmt.Fprintln(stderr, "Error:", err)
		return exitError
	}
	status, out, errs := pretend(command, cwd, p, env[envExec])
	_, _ = io.WriteString(stdout, out)
	_, _ = io.WriteString(stderr, errs)
	return status
}

// experimental is the answer to what the client did not declare.
func experimental(thing string) *fault {
	return invalid("%s requires experimentalApi capability", thing)
}

// gated reports the first of a request's fields that needs the capability.
func (s *Server) gated(m incoming, fields ...string) *fault {
	if s.experimental {
		return nil
	}
	var have map[string]json.RawMessage
	_ = json.Unmarshal(m.Params, &have)
	for _, field := range fields {
		if _, ok := have[field]; ok {
			return experimental(*m.Method + "." + field)
		}
	}
	return nil
}
