package stubserver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
)

// Views of a turn's items.
const (
	viewNone    = "notLoaded"
	viewSummary = "summary"
	viewFull    = "full"
)

// Statuses of a turn.
const (
	turnRunning     = "inProgress"
	turnCompleted   = "completed"
	turnInterrupted = "interrupted"
	turnFailed      = "failed"
)

// past is one turn of a thread's history.
type past struct {
	id        string
	ordinal   int
	status    string
	err       object
	items     []item
	started   int64 // unix milliseconds
	completed int64 // 0 while unknown
}

// turnsOf builds the turns of a thread, oldest first. One without an end was cut
// off by the end of its process, unless it is the one that runs.
func turnsOf(t *thread) []past {
	var turns []past
	for _, e := range t.entries {
		if e.Type == entryStarted {
			status := turnInterrupted
			if t.running != nil && e.Turn == t.running.id {
				status = turnRunning
			}
			turns = append(turns, past{id: e.Turn, ordinal: len(turns) + 1, status: status, started: e.Started})
			continue
		}
		i := slices.IndexFunc(turns, func(p past) bool { return p.id == e.Turn })
		if i < 0 {
			continue
		}
		switch e.Type {
		case entryItem:
			turns[i].items = append(turns[i].items, *e.Item)
		case entryEnded:
			turns[i].status, turns[i].err, turns[i].completed = e.Status, e.Error, e.Completed
		}
	}
	return turns
}

// wire is the turn as replies and events show it.
func (p past) wire(view string) object {
	items := []object{}
	for _, it := range p.shown(view) {
		items = append(items, it.wire())
	}
	var started, completed, duration, failure any
	if p.started > 0 {
		started = p.started / 1000
	}
	if p.completed > 0 {
		completed, duration = p.completed/1000, p.completed-p.started
	}
	if p.err != nil {
		failure = p.err
	}
	return object{
		"id": p.id, "rootTurnId": p.id, "items": items, "itemsView": view, "status": p.status, "error": failure,
		"startedAt": started, "completedAt": completed, "durationMs": duration, "stubGrease": []any{},
	}
}

// shown: a summary holds the user message and the last agent message.
func (p past) shown(view string) []item {
	switch view {
	case viewFull:
		return p.items
	case viewSummary:
		var shown []item
		if i := slices.IndexFunc(p.items, func(it item) bool { return it.Type == itemUser }); i >= 0 {
			shown = append(shown, p.items[i])
		}
		for i := len(p.items) - 1; i >= 0; i-- {
			if p.items[i].Type == itemAgent {
				return append(shown, p.items[i])
			}
		}
		return shown
	default:
		return nil
	}
}

func views(turns []past, view string) []object {
	list := []object{}
	for _, p := range turns {
		list = append(list, p.wire(view))
	}
	return list
}

// texts is what the user said on the thread, one text a turn, with what the
// script file added to it.
func texts(entries []entry) []string {
	var all []string
	for _, e := range entries {
		switch {
		case e.Type == entryStarted:
			all = append(all, e.Script)
		case e.Item != nil && e.Item.Type == itemUser && len(all) > 0:
			all[len(all)-1] += " " + message(e.Item.text())
		}
	}
	return all
}

func (s *Server) threadRead(m incoming) (any, *fault) {
	var p struct {
		IncludeTurns bool `json:"includeTurns"`
	}
	t, f := s.either(m)
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	if f != nil {
		return nil, f
	}
	wire := s.wireThread(t)
	if p.IncludeTurns {
		switch {
		case t.ephemeral:
			return nil, invalid("ephemeral threads do not support includeTurns")
		case len(t.entries) == 0:
			return nil, refuse(codeNotHere, "list_turns is not supported yet")
		}
		s.notify("deprecationNotice", object{"summary": "Full-history hydration is deprecated for paginated threads; omit `includeTurns`.", "details": nil})
		wire["turns"] = views(turnsOf(t), viewFull)
	}
	return object{"thread": wire, "readState": nil}, nil
}

// either finds the thread of a request in memory or, without loading it, on disk.
func (s *Server) either(m incoming) (*thread, *fault) {
	id, f := threadID(m.Params, "thread")
	if f != nil {
		return nil, f
	}
	if t := s.threads[id]; t != nil {
		return t, nil
	}
	t, _, err := s.load(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, invalid("thread not loaded: %s", id)
	case err != nil:
		return nil, refuse(codeInternal, "%v", err)
	}
	return t, nil
}

// cursor is a place in a thread's history; clients hand it back as it is.
type cursor struct {
	Thread  string `json:"requestedThreadId"`
	Ordinal int    `json:"rolloutOrdinal"`
	Anchor  bool   `json:"includeAnchor"`
	Scope   struct {
		Kind string `json:"kind"`
	} `json:"scope"`
}

func (c cursor) String() string {
	c.Scope.Kind = "turns"
	text, _ := json.Marshal(c)
	return string(text)
}

// defaultPage bounds a page for which no limit was asked.
const defaultPage = 50

func (s *Server) turnsList(m incoming) (any, *fault) {
	p := struct {
		Cursor    *string `json:"cursor"`
		Limit     int     `json:"limit"`
		ItemsView string  `json:"itemsView"`
		Sort      string  `json:"sortDirection"`
	}{Limit: defaultPage, ItemsView: viewSummary, Sort: "desc"}
	t, f := s.either(m)
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	if f == nil {
		f = variant(p.ItemsView, viewNone, viewSummary, viewFull)
	}
	switch {
	case f != nil:
		return nil, f
	case t.ephemeral:
		return nil, invalid("ephemeral threads do not support thread/turns/list")
	case len(t.entries) == 0:
		return nil, invalid("thread %s is not materialized yet; thread/turns/list is unavailable before first user message", t.id())
	}
	turns := turnsOf(t)
	newestFirst := p.Sort != "asc"
	if newestFirst {
		slices.Reverse(turns)
	}
	if p.Cursor != nil {
		var c cursor
		if json.Unmarshal([]byte(*p.Cursor), &c) != nil || c.Thread != t.id() {
			return nil, invalid("invalid cursor: %s", *p.Cursor)
		}
		turns = slices.DeleteFunc(turns, func(x past) bool {
			behind := x.ordinal > c.Ordinal
			if !newestFirst {
				behind = x.ordinal < c.Ordinal
			}
			return behind || x.ordinal == c.Ordinal && !c.Anchor
		})
	}
	var next, back any
	if len(turns) > 0 {
		back = cursor{Thread: t.id(), Ordinal: turns[0].ordinal, Anchor: true}.String()
	}
	if p.Limit > 0 && len(turns) > p.Limit {
		turns = turns[:p.Limit]
		next = cursor{Thread: t.id(), Ordinal: turns[p.Limit-1].ordinal}.String()
	}
	return object{"data": views(turns, p.ItemsView), "nextCursor": next, "backwardsCursor": back}, nil
}
