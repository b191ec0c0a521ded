package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Request is one model call as it arrived, taken apart for assertions.
type Request struct {
	// N counts requests from 1.
	N int
	// Model is the model's name.
	Model string
	// Instructions are the base instructions.
	Instructions string
	// Developer holds the texts of developer (and system) messages.
	Developer []string
	// Users holds the texts of user messages in order, those that codex
	// writes itself (environment context, AGENTS.md) included.
	Users []string
	// Assistants holds the model's own earlier answers.
	Assistants []string
	// Tools names what the model was offered, in order.
	Tools []string
	// Outputs are the results of tool calls since the newest user message.
	Outputs []string
	// Images counts pictures in the whole input.
	Images int
	// Raw is the body, byte for byte.
	Raw json.RawMessage
}

// Newest is the text of the newest user message, which steers the answer.
func (r Request) Newest() string {
	if len(r.Users) == 0 {
		return ""
	}
	return r.Users[len(r.Users)-1]
}

// Has reports whether the body holds the text in any JSON spelling that a
// client uses, which is what "the model saw it" means.
func (r Request) Has(text string) bool {
	if strings.Contains(string(r.Raw), text) {
		return true
	}
	quoted := jsonString(text)
	if strings.Contains(string(r.Raw), quoted[1:len(quoted)-1]) {
		return true
	}
	escaped, err := json.Marshal(text) // what a Go client sends
	return err == nil && strings.Contains(string(r.Raw), string(escaped[1:len(escaped)-1]))
}

// wireRequest is the part of the body that is read; codex sends far more.
type wireRequest struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []wireItem        `json:"input"`
	Tools        []json.RawMessage `json:"tools"`
}

type wireItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

func parseRequest(body []byte) (Request, error) {
	var wire wireRequest
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, fmt.Errorf("decode model request: %w", err)
	}
	req := Request{Model: wire.Model, Instructions: wire.Instructions, Raw: body}
	for _, item := range wire.Input {
		switch item.Type {
		case "message", "":
			text, images := flatten(item.Content)
			req.Images += images
			switch item.Role {
			case "user":
				req.Users = append(req.Users, text)
				req.Outputs = nil
			case "assistant":
				req.Assistants = append(req.Assistants, text)
			default:
				req.Developer = append(req.Developer, text)
			}
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
			text, images := flatten(item.Output)
			req.Images += images
			req.Outputs = append(req.Outputs, text)
		default:
			// Open set: reasoning, calls, compaction markers.
		}
	}
	for _, raw := range wire.Tools {
		var tool struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) != nil {
			continue
		}
		if tool.Name == "" {
			tool.Name = tool.Type // hosted tools such as web_search have a type only
		}
		req.Tools = append(req.Tools, tool.Name)
	}
	return req, nil
}

// flatten reads a content that is a string, a list of parts or an object with
// one of those inside, and returns its text and its number of pictures.
func flatten(raw json.RawMessage) (string, int) {
	if len(raw) == 0 {
		return "", 0
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, 0
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw), 0
	}
	var (
		out    []string
		images int
	)
	for _, part := range parts {
		if part.Type == "input_image" {
			images++
			continue
		}
		if part.Text != "" {
			out = append(out, part.Text)
		}
	}
	return strings.Join(out, "\n"), images
}
