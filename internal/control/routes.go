package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// maxRequest bounds a request: the largest task, escaped.
const maxRequest = 2 * task.MaxBytes

// only names the only work dir there is. It is not a valid name of one.
const only = "-"

// logKeys are how the log calls the words of a route.
var logKeys = map[string]string{"wd": "workdir", "id": "task", "action": "action"}

// answer is the document of a reply, or why there is none.
type answer func(r *http.Request) (any, error)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]answer{
		"GET /v1/status":                             s.status,
		"GET /v1/workdirs/{wd}/threads":              s.threads,
		"POST /v1/workdirs/{wd}/threads":             s.bindThread,
		"DELETE /v1/workdirs/{wd}/threads":           s.resetThread,
		"GET /v1/workdirs/{wd}/tasks/{id}":           s.task,
		"POST /v1/workdirs/{wd}/tasks":               s.dropTask,
		"POST /v1/workdirs/{wd}/tasks/{id}/{action}": s.changeTask,
		"GET /v1/workdirs/{wd}/models":               s.models,
		"POST /v1/workdirs/{wd}/{action}":            s.change,
	} {
		mux.Handle(pattern, s.handle(f))
	}
	mux.Handle("/", s.handle(func(r *http.Request) (any, error) { return nil, noRoute(r) }))
	return mux
}

func noRoute(r *http.Request) error {
	return &Error{
		Code: CodeNoRoute, Message: fmt.Sprintf("this service knows no %s %s", r.Method, r.URL.Path),
		Hint: "the service and this command may be of different versions: `codex-supervisor version`, `codex-supervisor status`",
	}
}

func (s *Server) handle(f answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		doc, err := f(r.WithContext(ctx))
		status := http.StatusOK
		if err != nil {
			e := errorOf(err)
			doc, status = e, e.status()
		}
		if r.Method != http.MethodGet {
			// The route and the words of it that are ours: a channel is the
			// sender's word.
			attrs := []any{"route", r.Pattern, "status", status}
			for _, name := range []string{"wd", "id", "action"} {
				if v := r.PathValue(name); v != "" && v != only {
					attrs = append(attrs, logKeys[name], v)
				}
			}
			s.log.Info("control request", attrs...)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(doc); err != nil {
			s.log.Debug("reply not sent", "route", r.Pattern, "error", err)
		}
	})
}

func (s *Server) dir(r *http.Request) (WorkDir, error) {
	name := r.PathValue("wd")
	if name == only {
		name = ""
	}
	return s.opt.Backend.Dir(name)
}

func (s *Server) status(*http.Request) (any, error) {
	st := Status{Status: s.opt.Backend.Status(), Socket: s.opt.Socket, Listen: s.Addr()}
	for i := range st.WorkDirs {
		dir, err := s.opt.Backend.Dir(st.WorkDirs[i].Name)
		if err != nil {
			return nil, err
		}
		if st.WorkDirs[i].Threads, err = dir.Threads(); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (s *Server) threads(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	list, err := dir.Threads()
	return Threads{WorkDir: dir.Name(), Threads: list}, err
}

func (s *Server) bindThread(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	var ask BindRequest
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	return Done{WorkDir: dir.Name(), Done: "bind"}, dir.BindThread(ask.Channel, ask.Thread)
}

func (s *Server) resetThread(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	channel := r.URL.Query().Get("channel")
	old, err := dir.ResetThread(channel)
	return ResetReply{Channel: channel, Thread: old}, err
}

func (s *Server) task(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	st, err := dir.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if p := s.opt.Paths[dir.Name()]; st.Result != "" && p.Results != "" {
		st.Result = filepath.Join(p.Results, st.Result)
	}
	return st, nil
}

func (s *Server) dropTask(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	var ask DropRequest
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	key, err := ReadKey(s.opt.Paths[dir.Name()].KeyFile)
	if err != nil {
		return nil, err
	}
	if err := ask.check(); err != nil {
		return nil, err
	}
	id, err := dir.DropTask(func(id string) []byte { return ask.Bytes(id, key) })
	return DropReply{ID: id, WorkDir: dir.Name()}, err
}

func (d DropRequest) check() error {
	if strings.TrimFunc(d.Text, task.IsSpace) == "" {
		return &Error{Code: supervisor.CodeInvalid, Message: "the task is empty", Hint: "give its text as an argument or on standard input"}
	}
	if tier, ok := task.CanonicalTier(string(d.Tier)); !ok || tier != d.Tier {
		return &Error{Code: supervisor.CodeInvalid, Message: fmt.Sprintf("there is no tier %q", d.Tier), Hint: "one of owner, team, guest, ambient"}
	}
	return nil
}

// Bytes is the task file that the request asks for, stamped when there is a key.
func (d DropRequest) Bytes(id string, key task.Key) []byte {
	priority := task.Normal
	if d.Priority != nil {
		priority = *d.Priority
	}
	raw := task.Format(task.Task{
		ID: id, Tier: d.Tier, ChannelID: d.Channel, Priority: priority, Sender: d.Sender,
		Source: "codex-supervisor", Body: d.Text,
	})
	return task.Stamp(raw, key)
}

// ReadKey reads a key file; one that is missing is no key and no error.
func ReadKey(path string) (task.Key, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := task.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("read key %q: %w", path, err)
	}
	return key, nil
}

func (s *Server) changeTask(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	id, action := r.PathValue("id"), r.PathValue("action")
	switch action {
	case "cancel":
		err = dir.CancelTask(r.Context(), id)
	case "retry":
		err = dir.RetryTask(r.Context(), id)
	default:
		err = noRoute(r)
	}
	return Done{WorkDir: dir.Name(), Task: id, Done: action}, err
}

func (s *Server) models(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	list, err := dir.Models(r.Context())
	return Models{WorkDir: dir.Name(), Models: list}, err
}

func (s *Server) change(r *http.Request) (any, error) {
	dir, err := s.dir(r)
	if err != nil {
		return nil, err
	}
	action := r.PathValue("action")
	switch action {
	case "pause", "resume":
		err = dir.Pause(r.Context(), action == "pause")
	case "restart":
		dir.Restart()
	default:
		err = noRoute(r)
	}
	return Done{WorkDir: dir.Name(), Done: action}, err
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		// What was sent may be a message: the error names fields, not values.
		var kind *json.UnmarshalTypeError
		why := "it is no JSON document of the right form"
		if errors.As(err, &kind) {
			why = fmt.Sprintf("%s wants another kind of value", kind.Field)
		}
		return &Error{Code: supervisor.CodeInvalid, Message: "the request cannot be read: " + why}
	}
	return nil
}
