package config

import (
	"path/filepath"
	"strings"
)

// Environment variables that are read.
const (
	EnvSocket           = "CODEX_SUPERVISOR_SOCKET"
	envRuntimeDir       = "XDG_RUNTIME_DIR"
	envServiceRuntime   = "RUNTIME_DIRECTORY" // systemd's RuntimeDirectory=
	envStateHome        = "XDG_STATE_HOME"
	envServiceStateDirs = "STATE_DIRECTORY" // systemd's StateDirectory=
)

const (
	appName      = "codex-supervisor"
	socketName   = "control.sock"
	systemSocket = "/run/" + appName + "/" + socketName
)

// SocketCandidates are the places where a client looks for the service, first
// choice first. Where $CODEX_SUPERVISOR_SOCKET names one, it is the only one:
// falling through to another would talk to another service.
func SocketCandidates(env func(string) string) []string {
	if s := env(EnvSocket); s != "" {
		return []string{s}
	}
	var found []string
	if dir := env(envRuntimeDir); filepath.IsAbs(dir) {
		found = append(found, filepath.Join(dir, appName, socketName))
	}
	found = append(found, systemSocket)
	if home := env("HOME"); filepath.IsAbs(home) {
		found = append(found, filepath.Join(home, ".local/state", appName, socketName))
	}
	return found
}

// defaultSocket is where a service without orders listens. A system service is
// known by the runtime directory that systemd gave it, or by being root.
func defaultSocket(env func(string) string, uid int) (path, variable string) {
	if dirs := env(envServiceRuntime); dirs != "" {
		first, _, _ := strings.Cut(dirs, ":")
		return filepath.Join(first, socketName), envServiceRuntime
	}
	if dir := env(envRuntimeDir); filepath.IsAbs(dir) {
		return filepath.Join(dir, appName, socketName), envRuntimeDir
	}
	home := env("HOME")
	if uid == 0 || !filepath.IsAbs(home) {
		return systemSocket, ""
	}
	return filepath.Join(home, ".local/state", appName, socketName), ""
}
