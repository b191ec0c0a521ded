package stubserver

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Setting is an environment variable that changes the server as a whole.
type Setting struct {
	Name, Args, Does string
}

// Names of the settings.
const (
	envLog       = "STUB_LOG"
	envScript    = "STUB_SCRIPT"
	envStep      = "STUB_STEP_MS"
	envStart     = "STUB_START_MS"
	envInit      = "STUB_INIT_MS"
	envMute      = "STUB_MUTE"
	envDeaf      = "STUB_DEAF"
	envOverload  = "STUB_OVERLOAD"
	envNoLogin   = "STUB_NO_LOGIN"
	envNoExperi  = "STUB_NO_EXPERIMENTAL"
	envLocked    = "STUB_LOCKED"
	envPolicy    = "STUB_POLICY"
	envExec      = "STUB_EXEC"
	envVersion   = "STUB_VERSION"
	envStderr    = "STUB_STDERR"
	envStartExit = "STUB_EXIT"
)

// lockedFile in CODEX_HOME makes every stored thread appear to be held by
// another process, for as long as it lies there.
const lockedFile = "stub-locked"

// Settings is the one list of environment variables.
func Settings() []Setting {
	return []Setting{
		{envLog, "FILE", "appends a JSON line for each start and each prompt that the model saw"},
		{envScript, "FILE", "words for turns whose text holds none, see the package's documentation"},
		{envStep, "N", "pause between pieces of a slow answer (25)"},
		{envStart, "N", "pause between the answer to turn/start and turn/started, in which no interrupt works (5)"},
		{envInit, "N", "pause before initialize is answered"},
		{envMute, "1", "answers nothing at all"},
		{envDeaf, "1", "neither the end of stdin nor SIGTERM ends it"},
		{envOverload, "N", "the first N requests after initialize get -32001"},
		{envNoLogin, "1", "no account, until auth.json lies in CODEX_HOME"},
		{envNoExperi, "1", "refuses what is experimental though the client declared it"},
		{envLocked, "N", "the first N resumes meet another writer; also every one while CODEX_HOME/" + lockedFile + " exists"},
		{envPolicy, "WORD", "policy of new threads is not as asked: profile, network, write, instructions or durable"},
		{envExec, "WORD", "command/exec does not confine: open (reads all), blind (reads nothing), error, mute"},
		{envVersion, "X.Y.Z", "the version it claims (" + DefaultVersion + ")"},
		{envStderr, "N", "writes N bytes to stderr at the start"},
		{envStartExit, "STATUS", "ends at once with this status"},
	}
}

type environment map[string]string

func parseEnvironment(list []string) environment {
	env := environment{}
	for _, e := range list {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	return env
}

func (e environment) number(name string, otherwise int) int {
	n, err := strconv.Atoi(e[name])
	if err != nil {
		return otherwise
	}
	return n
}

func (e environment) millis(name string, otherwise int) time.Duration {
	return time.Duration(e.number(name, otherwise)) * time.Millisecond
}

func (e environment) version() string {
	if v := e[envVersion]; v != "" {
		return v
	}
	return DefaultVersion
}

// home is where threads, locks and counters lie.
func (e environment) home() string {
	if h := e["CODEX_HOME"]; h != "" {
		return h
	}
	return filepath.Join(e["HOME"], ".codex")
}
