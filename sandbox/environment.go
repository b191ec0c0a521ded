package sandbox

import (
	"slices"
	"strings"
)

// allowed are the names that the child gets from our own environment. The
// app-server's environment is readable by its owner's commands, so everything
// else has to be asked for by name.
var allowed = [...]string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
	// The model is reached through these where there is a proxy or a private
	// certificate authority. Commands do not inherit them.
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
}

// Environment picks the child's environment out of base: a short allow-list,
// the names in pass, and CODEX_HOME, which is always home.
func Environment(base, pass []string, home string) []string {
	const codexHome = "CODEX_HOME"
	var env []string
	seen := map[string]int{}
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || name == codexHome {
			continue
		}
		if !slices.Contains(allowed[:], name) && !slices.Contains(pass, name) && !strings.HasPrefix(name, "LC_") {
			continue
		}
		// The last one wins, as it does for a process.
		if at, again := seen[name]; again {
			env[at] = entry
			continue
		}
		seen[name] = len(env)
		env = append(env, entry)
	}
	return append(env, codexHome+"="+home)
}
