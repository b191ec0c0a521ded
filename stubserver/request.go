package stubserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// What the played account and model are called.
const (
	stubModel    = "stub-model"
	stubProvider = "stub"
)

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// methods are the requests that are known, in Codex's order as far as they go.
// Those that are not played get an error that says so.
var methods = []string{
	"initialize", "server/diagnostics", "thread/start", "thread/resume", "thread/fork", "thread/archive", "thread/delete",
	"thread/unsubscribe", "thread/name/set", "thread/queue/add", "thread/queue/list", "thread/queue/start", "thread/unarchive",
	"thread/compact/start", "thread/shellCommand", "thread/backgroundTerminals/clean", "thread/backgroundTerminals/list",
	"thread/backgroundTerminals/terminate", "thread/list", "thread/loaded/list", "thread/read", "thread/turns/list",
	"thread/items/list", "turn/start", "turn/steer", "turn/interrupt", "model/list", "permissionProfile/list", "account/read",
	"account/rateLimits/read", "account/login/start", "command/exec", "process/spawn", "config/read", "mcpServerStatus/list",
}

// gatedMethods need the capability experimentalApi.
var gatedMethods = []string{"server/diagnostics", "thread/queue/", "thread/backgroundTerminals/", "process/"}

// take handles one line of the client.
func (s *Server) take(line []byte) {
	if s.env[envMute] != "" {
		return
	}
	m, ok := s.parse(line)
	switch {
	case !ok:
	case m.Method == nil:
		s.answered(m)
	case m.ID == nil: // a notification: initialized
	default:
		s.handle(m)
	}
}

func (s *Server) handle(m incoming) {
	method := *m.Method
	if !slices.Contains(methods, method) {
		s.fail(m.ID, invalid("Invalid request: unknown variant `%s`, expected one of `%s`", method, strings.Join(methods, "`, `")))
		return
	}
	if m.Params == nil {
		s.fail(m.ID, invalid("Invalid request: missing field `params`"))
		return
	}
	if method == "initialize" {
		s.initialize(m)
		return
	}
	if !s.initialized {
		s.fail(m.ID, invalid("Not initialized"))
		return
	}
	if s.overload > 0 {
		s.overload--
		s.fail(m.ID, refuse(codeOverload, overloadMessage))
		return
	}
	if !s.experimental {
		for _, prefix := range gatedMethods {
			if strings.HasPrefix(method, prefix) {
				s.fail(m.ID, experimental(method))
				return
			}
		}
	}
	switch method {
	case "turn/start":
		s.turnStart(m)
		return
	case "turn/interrupt":
		s.interrupt(m)
		return
	case "command/exec":
		s.commandExec(m)
		return
	case "thread/start":
		s.threadStart(m)
		return
	case "thread/resume":
		s.threadResume(m)
		return
	case "thread/compact/start":
		s.compactStart(m)
		return
	case "thread/unsubscribe":
		s.unsubscribe(m)
		return
	}
	result, f := s.query(m)
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	s.reply(m.ID, result)
}

// query answers requests that change nothing.
func (s *Server) query(m incoming) (any, *fault) {
	switch *m.Method {
	case "account/read":
		return s.account(), nil
	case "model/list":
		return object{"data": []object{wireModel()}, "nextCursor": nil}, nil
	case "config/read":
		return s.configRead()
	case "thread/read":
		return s.threadRead(m)
	case "thread/turns/list":
		return s.turnsList(m)
	case "thread/loaded/list":
		ids := []string{}
		for id := range s.threads {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return object{"data": ids, "nextCursor": nil}, nil
	case "thread/backgroundTerminals/clean":
		_, f := s.loaded(m)
		return object{}, f
	default:
		return nil, refuse(codeInternal, "%s is not played by the stub", *m.Method)
	}
}

func (s *Server) initialize(m incoming) {
	if s.initialized {
		s.fail(m.ID, invalid("Already initialized"))
		return
	}
	var p struct {
		ClientInfo   clientInfo `json:"clientInfo"`
		Capabilities *struct {
			ExperimentalAPI bool     `json:"experimentalApi"`
			OptOut          []string `json:"optOutNotificationMethods"`
		} `json:"capabilities"`
	}
	f := required(m.Params, "clientInfo")
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	s.clock.after(s.env.millis(envInit, 0), func() {
		s.initialized = true
		s.client = p.ClientInfo
		if p.Capabilities != nil {
			s.experimental = p.Capabilities.ExperimentalAPI && s.env[envNoExperi] == ""
			for _, method := range p.Capabilities.OptOut {
				s.optOut[method] = true
			}
		}
		s.reply(m.ID, object{
			"userAgent": fmt.Sprintf("%s/%s (Stub 1.0.0; x86_64) unknown (%s; %s)", p.ClientInfo.Name, s.env.version(), p.ClientInfo.Name, p.ClientInfo.Version),
			"codexHome": s.home, "platformFamily": "unix", "platformOs": "linux",
		})
		s.warnings()
		s.grease()
	})
}

func (s *Server) account() object {
	reply := object{"account": nil, "userId": nil, "requiresOpenaiAuth": false, "workspaceRouting": nil}
	if s.env[envNoLogin] != "" {
		reply["requiresOpenaiAuth"] = true
		if exists(s.home + "/auth.json") {
			reply["account"] = object{"type": "apiKey"}
		}
	}
	return reply
}

func wireModel() object {
	return object{
		"id": stubModel, "model": stubModel, "upgrade": nil, "displayName": "Stub", "description": "Does what its prompt says.", "hidden": false,
		"supportedReasoningEfforts": []object{{"reasoningEffort": "medium", "description": "The one there is"}},
		"defaultReasoningEffort":    "medium", "inputModalities": []string{"text", "image"}, "supportsPersonality": false, "isDefault": true,
	}
}

// threadID takes the id out of a request's parameters; kind is what Codex calls
// it in the refusal of one that is malformed.
func threadID(params json.RawMessage, kind string) (string, *fault) {
	var p struct {
		ThreadID string `json:"threadId"`
	}
	if f := required(params, "threadId"); f != nil {
		return "", f
	}
	if f := decodeParams(params, &p); f != nil {
		return "", f
	}
	if bad := badUUID(p.ThreadID); bad != "" {
		return "", invalid("invalid %s id: %s", kind, bad)
	}
	return p.ThreadID, nil
}

// loaded finds the thread of a request in memory.
func (s *Server) loaded(m incoming) (*thread, *fault) {
	id, f := threadID(m.Params, "thread")
	if f != nil {
		return nil, f
	}
	t := s.threads[id]
	if t == nil {
		return nil, invalid("thread not found: %s", id)
	}
	return t, nil
}
