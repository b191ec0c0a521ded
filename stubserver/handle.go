package stubserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// handle answers one request. Codex answers nearly every fault with -32600.
func (s *Server) handle(ctx context.Context, m incoming) {
	if m.Params == nil {
		s.fail(m.ID, -32600, "Invalid request: missing field `params`")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == rpc.MethodInitialize {
		s.initialize(m)
		return
	}
	if !s.initialized {
		s.fail(m.ID, -32600, "Not initialized")
		return
	}
	if s.overload > 0 {
		s.overload--
		s.fail(m.ID, -32001, "Server overloaded; retry later.")
		return
	}
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Cursor   string `json:"cursor"`
		Limit    int    `json:"limit"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case rpc.MethodAccountRead:
		s.reply(m.ID, s.account())
	case rpc.MethodModelList:
		s.reply(m.ID, map[string]any{"data": []map[string]any{stubModel()}, "nextCursor": nil})
	case rpc.MethodConfigRead:
		s.reply(m.ID, map[string]any{"config": map[string]any{"mcp_servers": s.mcpServers()}, "origins": map[string]any{}})
	case rpc.MethodThreadStart:
		s.threadStart(m)
	case rpc.MethodThreadResume:
		s.threadResume(m, p.ThreadID)
	case rpc.MethodThreadRead:
		s.threadRead(m, p.ThreadID)
	case rpc.MethodThreadTurnsList:
		s.turnsList(m, p.ThreadID, p.Cursor, p.Limit)
	case rpc.MethodThreadUnsubscribe:
		s.unsubscribe(ctx, m, p.ThreadID)
	case rpc.MethodThreadLoadedList:
		ids := []string{}
		for id := range s.threads {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		s.reply(m.ID, rpc.ThreadLoadedListReply{Data: ids})
	case rpc.MethodThreadCompactStart:
		s.compact(ctx, m, p.ThreadID)
	case rpc.MethodThreadBackgroundTerminalsClean:
		if !s.experimental {
			s.fail(m.ID, -32600, "thread/backgroundTerminals/clean requires experimentalApi capability")
			return
		}
		s.reply(m.ID, struct{}{})
	case rpc.MethodTurnStart:
		s.turnStart(ctx, m)
	case rpc.MethodTurnInterrupt:
		s.interrupt(m, p.ThreadID, p.TurnID)
	default:
		s.fail(m.ID, -32600, "Invalid request: unknown variant `%s`, expected one of `initialize`, `thread/start`", m.Method)
	}
}

func (s *Server) initialize(m incoming) {
	if s.initialized {
		s.fail(m.ID, -32600, "Already initialized")
		return
	}
	var p rpc.InitializeParams
	_ = json.Unmarshal(m.Params, &p)
	s.initialized = true
	s.experimental = p.Capabilities != nil && p.Capabilities.ExperimentalAPI
	<-time.After(time.Duration(s.number("STUB_INIT_MS", 0)) * time.Millisecond)
	s.reply(m.ID, rpc.InitializeReply{
		UserAgent: p.ClientInfo.Name + "/" + s.version + " (Stub 1.0; x86_64) stub", CodexHome: s.home,
		PlatformFamily: "unix", PlatformOS: "linux",
	})
	if path := s.brokenConfig(); path != "" {
		s.notify("configWarning", map[string]any{"summary": "Invalid configuration; using defaults.", "details": "expected a value", "path": path})
	}
	s.notify("remoteControl/status/changed", map[string]any{"status": "disabled", "installationId": "stub", "serverName": "stub"})
	s.grease()
}

// brokenConfig plays a configuration that does not load.
func (s *Server) brokenConfig() string {
	path := filepath.Join(s.home, "config.toml")
	raw, err := os.ReadFile(path)
	if err == nil && strings.Contains(string(raw), "= broken") {
		return path
	}
	return ""
}

func (s *Server) account() rpc.AccountReadReply {
	if s.env["STUB_NO_LOGIN"] == "" {
		return rpc.AccountReadReply{}
	}
	if _, err := os.Stat(filepath.Join(s.home, "auth.json")); err == nil {
		return rpc.AccountReadReply{Account: &rpc.Account{Type: "apiKey"}, RequiresOpenAIAuth: true}
	}
	return rpc.AccountReadReply{RequiresOpenAIAuth: true}
}

func stubModel() map[string]any {
	return map[string]any{
		"id": "stub-model", "model": "stub-model", "displayName": "Stub", "description": "plays a model", "hidden": false,
		"supportedReasoningEfforts": []any{}, "defaultReasoningEffort": "medium", "isDefault": true,
	}
}

// mcpServers reads the names of configured servers from config.toml.
func (s *Server) mcpServers() map[string]any {
	servers := map[string]any{}
	raw, err := os.ReadFile(filepath.Join(s.home, "config.toml"))
	if err != nil {
		return servers
	}
	for line := range strings.Lines(string(raw)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "[mcp_servers."); ok {
			servers[strings.TrimSuffix(name, "]")] = map[string]any{"command": "true"}
		}
	}
	return servers
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-7" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
}

func (s *Server) threadStart(m incoming) {
	var p rpc.ThreadStartParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.fail(m.ID, -32600, "Invalid request: %v", err)
		return
	}
	if path := s.brokenConfig(); path != "" {
		s.fail(m.ID, -32600, "failed to load configuration: %s: expected a value", path)
		return
	}
	t := &thread{id: newID(), ephemeral: p.Ephemeral, cwd: p.Cwd}
	if err := s.applyPolicy(t, p.Sandbox, p.Config); err != nil {
		s.fail(m.ID, -32600, "%v", err)
		return
	}
	if err := s.lockThread(t); err != nil {
		s.fail(m.ID, -32603, "%v", err)
		return
	}
	s.threads[t.id] = t
	s.reply(m.ID, s.threadReply(t))
	s.notify("thread/started", map[string]any{"thread": s.wireThread(t)})
	s.grease()
}

// applyPolicy plays the choice between `sandbox` and a permission profile: the
// former wins, silently.
func (s *Server) applyPolicy(t *thread, sandbox string, config map[string]any) error {
	if sandbox != "" {
		t.sandbox = sandboxOf(":" + sandbox)
		return nil
	}
	profile, ok := config["default_permissions"].(string)
	if !ok {
		profile = strings.Trim(s.config["default_permissions"], `"`)
	}
	if profile == "" {
		profile = ":read-only"
	}
	t.profile = &rpc.ProfileRef{ID: profile}
	if strings.HasPrefix(profile, ":") {
		t.sandbox = sandboxOf(profile)
		return nil
	}
	text, ok := s.config["permissions."+profile]
	if !ok {
		return errors.New("default_permissions refers to undefined profile `" + profile + "`")
	}
	t.sandbox = sandboxOf(":read-only")
	if _, extends, found := strings.Cut(text, `extends="`); found {
		t.profile.Extends, _, _ = strings.Cut(extends, `"`)
		t.sandbox = sandboxOf(t.profile.Extends)
	}
	return nil
}

func sandboxOf(profile string) rpc.SandboxInfo {
	switch profile {
	case ":workspace", ":workspace-write":
		return rpc.SandboxInfo{Type: "workspaceWrite", NetworkAccess: false, WritableRoots: []string{}}
	case ":danger-full-access":
		return rpc.SandboxInfo{Type: "dangerFullAccess"}
	default:
		return rpc.SandboxInfo{Type: "readOnly", NetworkAccess: false}
	}
}

func (s *Server) threadReply(t *thread) rpc.ThreadReply {
	return rpc.ThreadReply{
		Thread: s.wireThread(t), Model: "stub-model", ModelProvider: "stub", Cwd: t.cwd,
		ApprovalPolicy: json.RawMessage(`"never"`), ApprovalsReviewer: "user",
		Sandbox: t.sandbox, ActivePermissionProfile: t.profile, InstructionSources: []string{},
	}
}

func (s *Server) wireThread(t *thread) rpc.Thread {
	status := rpc.ThreadStatus{Type: rpc.ThreadIdle}
	if t.running != nil {
		status = rpc.ThreadStatus{Type: rpc.ThreadActive}
	}
	var path *string
	if !t.ephemeral {
		p := s.rolloutPath(t.id)
		path = &p
	}
	now := time.Now().Unix()
	return rpc.Thread{
		ID: t.id, SessionID: t.id, Ephemeral: t.ephemeral, Status: status, Path: path, Cwd: t.cwd, CLIVersion: s.version,
		ModelProvider: "stub", Source: "vscode", CreatedAt: now, UpdatedAt: now, Turns: []rpc.Turn{},
	}
}

func (s *Server) threadResume(m incoming, id string) {
	var p rpc.ThreadResumeParams
	_ = json.Unmarshal(m.Params, &p)
	if path := s.brokenConfig(); path != "" {
		s.fail(m.ID, -32600, "failed to load configuration: %s: expected a value", path)
		return
	}
	t := s.threads[id]
	if t == nil || len(t.entries) == 0 {
		entries, err := s.load(id)
		if err != nil {
			s.fail(m.ID, -32600, "no rollout found for thread id %s", id)
			return
		}
		if t == nil {
			t = &thread{id: id, entries: entries, cwd: p.Cwd}
		}
		if err := s.lockThread(t); err != nil {
			s.fail(m.ID, -32600, "%v", err)
			return
		}
		if err := s.applyPolicy(t, p.Sandbox, p.Config); err != nil {
			s.fail(m.ID, -32600, "%v", err)
			return
		}
		s.threads[id] = t
	}
	t.unsubscribed = false
	s.reply(m.ID, s.threadReply(t))
}

func (s *Server) threadRead(m incoming, id string) {
	if t := s.threads[id]; t != nil {
		s.reply(m.ID, rpc.ThreadReadReply{Thread: s.wireThread(t)})
		return
	}
	if _, err := s.load(id); err != nil {
		s.fail(m.ID, -32600, "thread not loaded: %s", id)
		return
	}
	s.reply(m.ID, rpc.ThreadReadReply{Thread: s.wireThread(&thread{id: id})})
}

func (s *Server) turnsList(m incoming, id, cursor string, limit int) {
	var entries []entry
	running := ""
	if t := s.threads[id]; t != nil {
		if t.ephemeral {
			s.fail(m.ID, -32600, "ephemeral threads do not support listing turns")
			return
		}
		if len(t.entries) == 0 {
			s.fail(m.ID, -32601, "list_turns is not supported yet")
			return
		}
		entries = t.entries
		if t.running != nil {
			running = t.running.id
		}
	} else {
		var err error
		if entries, err = s.load(id); errors.Is(err, fs.ErrNotExist) {
			s.fail(m.ID, -32600, "thread not loaded: %s", id)
			return
		}
	}
	turns := turnsOf(entries, running)
	slices.Reverse(turns)
	if cursor != "" {
		i := slices.IndexFunc(turns, func(t rpc.Turn) bool { return t.ID == cursor })
		turns = turns[i+1:]
	}
	reply := rpc.ThreadTurnsListReply{Data: turns}
	if limit > 0 && len(turns) > limit {
		reply.Data, reply.NextCursor = turns[:limit], turns[limit-1].ID
	}
	if reply.Data == nil {
		reply.Data = []rpc.Turn{}
	}
	s.reply(m.ID, reply)
}

func (s *Server) unsubscribe(ctx context.Context, m incoming, id string) {
	t := s.threads[id]
	if t == nil {
		s.reply(m.ID, rpc.ThreadUnsubscribeReply{Status: "notLoaded"})
		return
	}
	t.unsubscribed = true
	s.reply(m.ID, rpc.ThreadUnsubscribeReply{Status: "unsubscribed"})
	delay := time.Minute
	if n := s.config["thread_unload_delay_secs"]; n != "" {
		if d, err := time.ParseDuration(n + "s"); err == nil {
			delay = d
		}
	}
	s.turns.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.unsubscribed && t.running == nil && s.threads[id] == t {
			if t.lock != nil {
				_ = t.lock.Close()
			}
			delete(s.threads, id)
			s.notify("thread/closed", map[string]any{"threadId": id})
		}
	})
}
