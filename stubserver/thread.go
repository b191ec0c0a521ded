package stubserver

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"time"
)

// thread is a conversation: loaded, or read from its file for one answer.
type thread struct {
	meta      meta
	policy    policy
	ephemeral bool
	path      string
	entries   []entry
	lock      *os.File

	running    *turn
	compacting int  // compactions that wait for the running turn
	failed     bool // the last turn failed
	subscribed bool
	unsubs     int // counts unsubscribes and what calls them off
}

func (t *thread) id() string { return t.meta.ID }

// newID makes a version 7 uuid: they sort by time.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// threadParams are those of thread/start and thread/resume.
type threadParams struct {
	Cwd            string         `json:"cwd"`
	ApprovalPolicy any            `json:"approvalPolicy"`
	Sandbox        *string        `json:"sandbox"`
	Ephemeral      bool           `json:"ephemeral"`
	ExcludeTurns   bool           `json:"excludeTurns"`
	Config         map[string]any `json:"config"`
}

func (s *Server) threadParams(m incoming) (p threadParams, sandbox, approval string, f *fault) {
	if f = s.gated(m, "permissions", "environments"); f == nil {
		f = decodeParams(m.Params, &p)
	}
	if f == nil && p.Sandbox != nil {
		sandbox = *p.Sandbox
		f = variant(sandbox, sandboxReadOnly, sandboxWorkspace, sandboxFullAccess)
	}
	if word, ok := p.ApprovalPolicy.(string); ok && f == nil {
		approval = word
		f = variant(word, "untrusted", "on-request", "granular", "never")
	}
	return p, sandbox, approval, f
}

func (s *Server) threadStart(m incoming) {
	p, sandbox, approval, f := s.threadParams(m)
	var values object
	if f == nil {
		values, f = s.withThread(p.Config)
	}
	now := time.Now()
	t := &thread{ephemeral: p.Ephemeral, subscribed: true}
	if f == nil {
		t.policy, f = settle(values, sandbox, approval)
	}
	if f == nil {
		t.meta = meta{ID: newID(), Cwd: p.Cwd, Created: now.Unix(), Policy: t.policy, Origin: s.client.Name}
		if t.meta.Cwd == "" {
			t.meta.Cwd, _ = os.Getwd()
		}
		s.bend(t)
		t.path = s.rolloutPath(t.id(), now)
		f = s.lockThread(t)
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	s.threads[t.id()] = t
	s.log(object{"thread": t.id(), "threadStart": m.Params})
	s.reply(m.ID, s.threadReply(t))
	s.notify("thread/started", object{"thread": s.wireThread(t)})
	s.grease()
}

// threadReply is what thread/start and thread/resume answer.
func (s *Server) threadReply(t *thread) object {
	return object{
		"thread": s.wireThread(t), "model": stubModel, "modelProvider": stubProvider, "serviceTier": nil, "disabledPluginIds": []any{},
		"cwd": t.meta.Cwd, "runtimeWorkspaceRoots": []string{t.meta.Cwd}, "instructionSources": s.instructions(),
		"approvalPolicy": t.policy.Approval, "approvalsReviewer": "user", "sandbox": t.policy.sandbox(),
		"activePermissionProfile": t.policy.profile(), "reasoningEffort": nil, "multiAgentMode": "explicitRequestOnly",
	}
}

// status is what the thread is doing.
func (s *Server) status(t *thread) object {
	switch {
	case s.threads[t.id()] != t:
		return object{"type": "notLoaded"}
	case t.running != nil && t.running.started:
		flags := []string{}
		if a := t.running.asked; a != nil && a.flag != "" {
			flags = append(flags, a.flag)
		}
		return object{"type": "active", "activeFlags": flags}
	case t.failed:
		return object{"type": "systemError"}
	default:
		return object{"type": "idle"}
	}
}

func (s *Server) wireThread(t *thread) object {
	loaded := s.threads[t.id()] == t
	var path, direct, environments any
	if !t.ephemeral {
		path = t.path
	}
	if loaded {
		direct = true
		environments = []object{{"environmentId": "local", "cwd": t.meta.Cwd, "runtimeWorkspaceRoots": []string{t.meta.Cwd}}}
	}
	preview := ""
	for _, e := range t.entries {
		if e.Item != nil && e.Item.Type == itemUser {
			preview = e.Item.text()
			break
		}
	}
	return object{
		"id": t.id(), "environments": environments, "extra": nil, "sessionId": t.id(), "forkedFromId": nil, "parentThreadId": nil,
		"attachedToThreadId": nil, "section": nil, "sectionEnteredAt": nil, "daybreakEnabled": nil,
		"preview": preview, "ephemeral": t.ephemeral, "projectId": nil, "historyMode": "paginated", "modelProvider": stubProvider,
		"model": stubModel, "reasoningEffort": nil, "createdAt": t.meta.Created, "updatedAt": time.Now().Unix(), "recencyAt": t.meta.Created,
		"status": s.status(t), "path": path, "cwd": t.meta.Cwd, "cliVersion": s.env.version(), "originator": t.meta.Origin, "source": "vscode",
		"canAcceptDirectInput": direct, "threadSource": nil, "agentNickname": nil, "agentRole": nil, "gitInfo": nil, "name": nil, "turns": []object{},
		"stubGrease": "new",
	}
}

// threadResume loads a thread, or joins one that is loaded; then everything but
// the id is silently ignored.
func (s *Server) threadResume(m incoming) {
	id, f := threadID(m.Params, "session")
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	p, sandbox, approval, f := s.threadParams(m)
	t := s.threads[id]
	cold := t == nil
	if f == nil && (cold || len(t.entries) == 0) {
		t, f = s.thaw(id, p, sandbox, approval)
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	t.subscribed = true
	t.unsubs++
	if cold {
		s.threads[id] = t
		s.notify("thread/status/changed", object{"threadId": id, "status": s.status(t)})
	}
	reply := s.threadReply(t)
	if !p.ExcludeTurns {
		s.notify("deprecationNotice", object{"summary": "Full-history hydration is deprecated for paginated threads; use `excludeTurns: true`.", "details": nil})
		reply["thread"].(object)["turns"] = views(turnsOf(t), viewFull)
	}
	newest := 0
	for _, e := range t.entries {
		if e.Type == entryStarted {
			newest++
		}
	}
	here := cursor{Thread: id, Ordinal: newest, Anchor: true}.String()
	reply["initialTurnsPage"], reply["turnsBackwardsCursor"], reply["itemsBackwardsCursor"] = nil, here, here
	reply["collaborationMode"] = object{"mode": "default", "settings": object{"model": stubModel, "reasoning_effort": nil, "developer_instructions": nil}}
	s.reply(m.ID, reply)
	if cold {
		s.notify("thread/goal/cleared", object{"threadId": id})
	}
}

// thaw reads a stored thread to be loaded.
func (s *Server) thaw(id string, p threadParams, sandbox, approval string) (*thread, *fault) {
	t, archived, err := s.load(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, invalid("no rollout found for thread id %s", id)
	case err != nil:
		return nil, refuse(codeInternal, "%v", err)
	case archived:
		return nil, invalid("session %s is archived. Run `codex unarchive %s` to unarchive it first.", id, id)
	case s.lockedLeft > 0:
		s.lockedLeft--
		return nil, invalid("thread %s already has an active writer", id)
	}
	values, f := s.withThread(p.Config)
	if f != nil {
		return nil, f
	}
	t.policy = t.meta.Policy
	if approval == "" {
		approval = t.policy.Approval
	}
	if _, chosen := p.Config["default_permissions"]; chosen || sandbox != "" {
		if t.policy, f = settle(values, sandbox, approval); f != nil {
			return nil, f
		}
	}
	t.policy.Approval = approval
	if p.Cwd != "" {
		t.meta.Cwd = p.Cwd
	}
	if f := s.lockThread(t); f != nil {
		return nil, f
	}
	return t, nil
}

// unloadDelay is how long an idle thread without subscribers stays loaded.
func (s *Server) unloadDelay() time.Duration {
	switch n := s.config.values["thread_unload_delay_secs"].(type) {
	case int64:
		return time.Duration(n) * time.Second
	case float64: // finer than Codex takes, for tests
		return time.Duration(n * float64(time.Second))
	}
	return time.Minute
}

func (s *Server) unsubscribe(m incoming) {
	id, f := threadID(m.Params, "thread")
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	t, status := s.threads[id], "unsubscribed"
	switch {
	case t == nil:
		status = "notLoaded"
	case !t.subscribed:
		status = "notSubscribed"
	default:
		t.subscribed = false
		s.unloadLater(t)
	}
	s.reply(m.ID, object{"status": status})
}

// unloadLater lets go of a thread once it has been idle and unwatched for long
// enough. A running turn is not cut: it starts the wait anew when it ends.
func (s *Server) unloadLater(t *thread) {
	t.unsubs++
	mine := t.unsubs
	s.clock.after(s.unloadDelay(), func() {
		if t.unsubs != mine || t.subscribed || t.running != nil {
			return
		}
		t.unlock()
		delete(s.threads, t.id())
		s.notify("thread/status/changed", object{"threadId": t.id(), "status": s.status(t)})
		s.notify("thread/closed", object{"threadId": t.id()})
	})
}

// tell sends an event of a thread, which only its subscribers get, but for
// changes of its status.
func (s *Server) tell(t *thread, method string, params object) {
	if t.subscribed || method == "thread/status/changed" {
		params["threadId"] = t.id()
		s.notify(method, params)
	}
}
