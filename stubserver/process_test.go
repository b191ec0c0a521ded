package stubserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// process is this test binary playing codex.
type process struct {
	*codex
	cmd *exec.Cmd
}

func start(t *testing.T, home string, env ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, baseArgs()...)
	cmd.Env = append(os.Environ(), append(env, playCodex+"=1", "CODEX_HOME="+home)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	p := &process{listen(t, home, in, ours), cmd}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		_ = ours.Close()
	})
	return p
}

// gone waits for the end of the process and returns how it ended.
func (p *process) gone() syscall.WaitStatus {
	p.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case <-ended:
		return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	case <-time.After(patience):
		p.t.Fatal("the process does not end")
		return 0
	}
}

// A process that is killed in mid-turn leaves a history as Codex would.
func TestMain_Killed(t *testing.T) {
	home := t.TempDir()
	p := start(t, home)
	p.hello()
	id := p.thread(`{"cwd":"/w"}`)
	p.turn(id, "hello")
	turn := p.startTask(id, "task-9/1", "[[slow 1000]]")
	p.await("a delta", func(l line) bool { return l.Method == "item/agentMessage/delta" && l.Params["turnId"] == turn })
	second := start(t, home)
	second.hello()
	second.refused("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "thread "+id+" already has an active writer")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.gone()
	second.must("thread/resume", `{"threadId":%q}`, id)
	list := second.must("thread/turns/list", `{"threadId":%q}`, id)
	want(t, "newest", fmt.Sprint(at(list, "data", 0, "status"), at(list, "data", 0, "items", 0, "clientId"), at(list, "data", 0, "completedAt")), "interruptedtask-9/1<nil>")
	want(t, "before it", fmt.Sprint(at(list, "data", 1, "status"), at(list, "data", 1, "items", 1, "text")), "completedYou said: hello")
	_, answer := second.turn(id, "still there?")
	want(t, "next turn", answer, "You said: still there?")
}

func TestMain_Ends(t *testing.T) {
	t.Run("StdinInMidTurn", func(t *testing.T) {
		p := start(t, t.TempDir())
		p.hello()
		p.running(p.thread(`{"cwd":"/w"}`), "[[stall]]")
		_ = p.in.Close()
		want(t, "status", p.gone().ExitStatus(), 0)
		p.rest()
		want(t, "completions", p.count("turn/completed"), 0)
	})
	t.Run("SIGTERM", func(t *testing.T) {
		p := start(t, t.TempDir())
		p.hello()
		p.running(p.thread(`{"cwd":"/w"}`), "[[stall]]")
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		want(t, "status", p.gone().ExitStatus(), 0)
	})
	t.Run("Deaf", func(t *testing.T) {
		p := start(t, t.TempDir(), "STUB_DEAF=1")
		p.hello()
		turn := p.startTurn(p.thread(`{"cwd":"/w"}`), "[[slow 20 5]] hello")
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.in.Close()
		status, _ := p.ended(turn) // it works on
		want(t, "turn", status, "completed")
		_ = p.cmd.Process.Kill()
		want(t, "signal", p.gone().Signal(), syscall.SIGKILL)
	})
	t.Run("Die", func(t *testing.T) {
		p := start(t, t.TempDir())
		p.hello()
		p.startTurn(p.thread(`{"cwd":"/w"}`), "[[die]]")
		want(t, "signal", p.gone().Signal(), syscall.SIGKILL)
	})
	t.Run("Exit", func(t *testing.T) {
		p := start(t, t.TempDir())
		p.hello()
		p.startTurn(p.thread(`{"cwd":"/w"}`), "[[exit 7]]")
		want(t, "status", p.gone().ExitStatus(), 7)
	})
	t.Run("AtOnce", func(t *testing.T) {
		want(t, "status", start(t, t.TempDir(), "STUB_EXIT=9").gone().ExitStatus(), 9)
	})
}

func TestMain_Spawn(t *testing.T) {
	p := start(t, t.TempDir())
	p.hello()
	_, answer := p.turn(p.thread(`{"cwd":"/w"}`), "[[spawn]] hello")
	want(t, "answer", answer, "You said: hello")
	out, err := exec.Command("ps", "-o", "pid=,sess=,args=", "--ppid", fmt.Sprint(p.cmd.Process.Pid)).Output()
	if err != nil {
		t.Skipf("ps: %v", err)
	}
	var pid, session int
	if _, err := fmt.Sscan(string(out), &pid, &session); err != nil || pid != session || !strings.Contains(string(out), "sleep 60") {
		t.Fatalf("children %q, want one sleep in a session of its own", out)
	}
	_ = p.in.Close()
	p.gone()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("it did not outlive its parent: %v", err)
	}
}

func TestMain_Verbs(t *testing.T) {
	home := t.TempDir()
	room, secret := filepath.Join(home, "room", "file"), filepath.Join(home, "secret")
	if err := os.Mkdir(filepath.Dir(room), 0o755); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, room, "in the room\n")
	mustWrite(t, secret, "a secret\n")
	sandbox := func(profile string, command ...string) []string {
		args := append([]string{"sandbox", "-P", profile}, baseArgs()[1:]...)
		return append(append(args, "-C", filepath.Dir(room), "--"), command...)
	}
	for name, tc := range map[string]struct {
		args        []string
		env         string
		status      int
		stdout, err string
	}{
		"Version":      {[]string{"--version"}, "", 0, "codex-cli 0.171.0\n", ""},
		"OtherVersion": {[]string{"-V"}, "STUB_VERSION=1.2.3", 0, "codex-cli 1.2.3\n", ""},
		"NoVerb":       {[]string{"exec", "hello"}, "", 2, "", "only `app-server`"},
		"BadConfig":    {[]string{"app-server", "-c", "default_permissions=x"}, "", 1, "", "Error: default_permissions requires"},
		"Room":         {sandbox("guest_1", "cat", room), "", 0, "in the room\n", ""},
		"Outside":      {sandbox("guest_1", "cat", room, secret), "", 1, "in the room\n", "cat: " + secret + ": No such file or directory"},
		"FullAccess":   {sandbox(":danger-full-access", "cat", secret), "", 0, "a secret\n", ""},
		"OtherCommand": {sandbox("guest_1", "touch", room), "", 1, "", "touch: Permission denied"},
		"Open":         {sandbox("guest_1", "cat", secret), "STUB_EXEC=open", 0, "a secret\n", ""},
		"Blind":        {sandbox("guest_1", "cat", room), "STUB_EXEC=blind", 1, "", "No such file"},
		"Undefined":    {sandbox("guest_2", "cat", room), "", 1, "", "undefined profile `guest_2`"},
		"NoCommand":    {sandbox("guest_1"), "", 1, "", "no command given"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := stubserver.Main(tc.args, []string{"CODEX_HOME=" + home, tc.env}, nil, &out, &errs)
			if status != tc.status || out.String() != tc.stdout || !strings.Contains(errs.String(), tc.err) || (tc.err == "") != (errs.Len() == 0) {
				t.Errorf("%d %q %q, want %d %q %q", status, out.String(), errs.String(), tc.status, tc.stdout, tc.err)
			}
		})
	}
	var out, errs bytes.Buffer
	want(t, "--scenarios", stubserver.Main([]string{"--scenarios"}, nil, nil, &out, &errs), 0)
	for _, s := range stubserver.Scenarios() {
		if !strings.Contains(out.String(), string(s.Word)+" ") || s.Does == "" {
			t.Errorf("%s is not listed", s.Word)
		}
	}
	for _, s := range stubserver.Settings() {
		if !strings.Contains(out.String(), s.Name+" ") {
			t.Errorf("%s is not listed", s.Name)
		}
	}
	out.Reset()
	in := strings.NewReader(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	want(t, "app-server", stubserver.Main(baseArgs(), []string{"CODEX_HOME=" + home}, in, &out, &errs), 0)
}

func TestServer_CommandExec(t *testing.T) {
	home := t.TempDir()
	room := filepath.Join(home, "room")
	if err := os.Mkdir(room, 0o755); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(room, "file"), "in the room\n")
	mustWrite(t, filepath.Join(home, "secret"), "a secret\n")
	params := func(profile string, command ...string) string {
		list, _ := json.Marshal(command)
		return fmt.Sprintf(`{"command":%s,"cwd":%q,"permissionProfile":%q}`, list, room, profile)
	}
	c := talk(t, home).hello()
	verdict := func(r map[string]any) string { return fmt.Sprint(r["exitCode"], r["stdout"]) }
	want(t, "room", verdict(c.must("command/exec", "%s", params("guest_1", "cat", room+"/file"))), "0in the room\n")
	want(t, "outside", verdict(c.must("command/exec", "%s", params("guest_1", "cat", home+"/secret"))), "1")
	want(t, "unconfined", verdict(c.must("command/exec", "%s", params(":danger-full-access", "cat", home+"/secret"))), "0a secret\n")
	want(t, "no profile", verdict(c.must("command/exec", `{"command":["cat",%q],"cwd":%q}`, home+"/secret", room)), "1")
	c.refused("command/exec", params("nope", "true"), -32600, "invalid permission profile: default_permissions refers to undefined profile `nope`")
	c.refused("command/exec", params("guest_1"), -32600, "command must not be empty")
	c.refused("command/exec", `{"command":[]}`, -32600, "command must not be empty")
	c.refused("command/exec", `{}`, -32600, "Invalid request: missing field `command`")
	c = talk(t, home, "STUB_EXEC=error").hello()
	c.refused("command/exec", params("guest_1", "true"), -32603, "failed to spawn command: Resource temporarily unavailable (os error 11)")
	c = talk(t, home, "STUB_EXEC=mute").hello()
	id := c.ask("command/exec", params("guest_1", "true"))
	c.must("account/read", `{}`)
	for _, l := range c.seen {
		if string(l.ID) == id {
			t.Errorf("answered %s", l.raw)
		}
	}
}
