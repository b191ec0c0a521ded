package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// send writes one reply. It returns when the reply is out or ctx ends.
func send(ctx context.Context, w http.ResponseWriter, req Request, reply Reply) {
	if reply.StallHeaders {
		hang(ctx)
	}
	if reply.Status != 0 && reply.Status != http.StatusOK {
		writeStatus(w, reply.Status, reply.Body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := &eventStream{w: w, flush: http.NewResponseController(w)}
	id := fmt.Sprintf("resp_%d", req.N)
	out.event("response.created", map[string]any{"response": map[string]any{"id": id}})
	if reply.Stall {
		hang(ctx)
	}
	if reply.Failure != nil {
		out.event("response.failed", map[string]any{"response": map[string]any{
			"id": id, "status": "failed",
			"error": map[string]string{"code": reply.Failure.Code, "message": reply.Failure.Message},
		}})
		return
	}
	index := 0
	if reply.Commentary != "" {
		if !out.message(ctx, fmt.Sprintf("msg_%d_%d", req.N, index), index, "commentary", reply.Commentary, 1, 0, false) {
			return
		}
		index++
	}
	for _, call := range reply.Calls {
		out.call(fmt.Sprintf("call_%d_%d", req.N, index), index, call)
		index++
	}
	if reply.Text != "" || reply.Cut {
		text := reply.Text
		if text == "" {
			text = "cut"
		}
		if !out.message(ctx, fmt.Sprintf("msg_%d_%d", req.N, index), index, "final_answer", text, reply.Pieces, reply.Step, reply.Cut) {
			return
		}
	}
	in, made := len(req.Raw)/4, 1+len(reply.Text)/4
	out.event("response.completed", map[string]any{"response": map[string]any{
		"id": id,
		"usage": map[string]any{
			"input_tokens": in, "input_tokens_details": map[string]int{"cached_tokens": 0},
			"output_tokens": made, "output_tokens_details": map[string]int{"reasoning_tokens": 0},
			"total_tokens": in + made,
		},
	}})
}

// hang waits for the end of ctx and then drops the connection. A handler that
// returns would answer: an empty 200, or the regular end of the stream.
func hang(ctx context.Context) {
	<-ctx.Done()
	panic(http.ErrAbortHandler)
}

func writeStatus(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that is gone needs no answer
}

// eventStream writes server-sent events. Write errors are not looked at: the
// client is gone then, and ctx ends.
type eventStream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
}

func (e *eventStream) event(kind string, fields map[string]any) {
	fields["type"] = kind
	data, _ := json.Marshal(fields) // maps of strings and numbers always marshal
	_, _ = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, data)
	_ = e.flush.Flush()
}

// message sends one message item in pieces; false means that the stream ended
// inside it.
func (e *eventStream) message(ctx context.Context, id string, index int, phase, text string, pieces int, step time.Duration, cut bool) bool {
	item := func(content []any) map[string]any {
		return map[string]any{"type": "message", "role": "assistant", "id": id, "phase": phase, "content": content}
	}
	e.event("response.output_item.added", map[string]any{"output_index": index, "item": item([]any{})})
	parts := split(text, pieces)
	if cut {
		parts = parts[:(len(parts)+1)/2]
	}
	for _, part := range parts {
		if step > 0 {
			timer := time.NewTimer(step)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return false
			}
		}
		e.event("response.output_text.delta", map[string]any{"item_id": id, "output_index": index, "content_index": 0, "delta": part})
	}
	if cut {
		return false
	}
	e.event("response.output_item.done", map[string]any{"output_index": index, "item": item([]any{
		map[string]any{"type": "output_text", "text": text, "annotations": []any{}},
	})})
	return true
}

func (e *eventStream) call(id string, index int, call Call) {
	item := map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": call.Name, "arguments": call.Arguments}
	if call.Custom {
		item = map[string]any{"type": "custom_tool_call", "id": "ctc_" + id, "call_id": id, "name": call.Name, "input": call.Arguments}
	}
	e.event("response.output_item.added", map[string]any{"output_index": index, "item": item})
	e.event("response.output_item.done", map[string]any{"output_index": index, "item": item})
}

// split cuts text into at most n pieces on rune boundaries.
func split(text string, n int) []string {
	runes := []rune(text)
	if n <= 1 || len(runes) < 2 {
		return []string{text}
	}
	if n > len(runes) {
		n = len(runes)
	}
	parts := make([]string, 0, n)
	for i := range n {
		parts = append(parts, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return parts
}
