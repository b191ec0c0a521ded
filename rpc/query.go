package rpc

import (
	"encoding/json"
	"slices"
)

// AccountReadParams are the parameters of account/read.
type AccountReadParams struct {
	RefreshToken bool `json:"refreshToken,omitempty"`
}

// AccountReadReply answers account/read.
type AccountReadReply struct {
	Account            *Account `json:"account"`
	RequiresOpenAIAuth bool     `json:"requiresOpenaiAuth"`
}

// LoginMissing reports that no turn can work until somebody logs in.
func (r AccountReadReply) LoginMissing() bool { return r.Account == nil && r.RequiresOpenAIAuth }

// Account is who Codex is logged in as.
type Account struct {
	Type     string `json:"type"`
	Email    string `json:"email,omitempty"`
	PlanType string `json:"planType,omitempty"`
}

// ModelListParams are the parameters of model/list.
type ModelListParams struct {
	Cursor        string `json:"cursor,omitempty"`
	Limit         int    `json:"limit,omitempty"`
	IncludeHidden bool   `json:"includeHidden,omitempty"`
}

// ModelListReply answers model/list.
type ModelListReply struct {
	Data       []Model `json:"data"`
	NextCursor string  `json:"nextCursor,omitempty"`
}

// Model is one that Codex offers.
type Model struct {
	ID                        string            `json:"id"`
	Model                     string            `json:"model"`
	DisplayName               string            `json:"displayName"`
	Description               string            `json:"description"`
	Hidden                    bool              `json:"hidden"`
	IsDefault                 bool              `json:"isDefault"`
	DefaultReasoningEffort    string            `json:"defaultReasoningEffort"`
	SupportedReasoningEfforts []ReasoningEffort `json:"supportedReasoningEfforts"`
}

// ReasoningEffort is one effort that a model takes.
type ReasoningEffort struct {
	ReasoningEffort string `json:"reasoningEffort"`
	Description     string `json:"description"`
}

// ConfigReadParams are the parameters of config/read. Without a Cwd the servers
// of a project's own configuration are missed.
type ConfigReadParams struct {
	Cwd           string `json:"cwd,omitempty"`
	IncludeLayers bool   `json:"includeLayers,omitempty"`
}

// ConfigReadReply answers config/read.
type ConfigReadReply struct {
	Config  json.RawMessage `json:"config"`
	Origins json.RawMessage `json:"origins"`
}

// MCPServers are the names of the configured MCP servers, sorted.
func (r ConfigReadReply) MCPServers() []string {
	var config struct {
		Servers map[string]json.RawMessage `json:"mcp_servers"`
	}
	_ = decode(r.Config, &config)
	names := make([]string, 0, len(config.Servers))
	for name := range config.Servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CommandExecParams are the parameters of command/exec. Without
// PermissionProfile, which needs experimentalApi, the command runs under the
// child's default profile.
type CommandExecParams struct {
	Command           []string           `json:"command"`
	Cwd               string             `json:"cwd,omitempty"`
	Env               map[string]*string `json:"env,omitempty"` // nil unsets
	PermissionProfile string             `json:"permissionProfile,omitempty"`
	TimeoutMs         int64              `json:"timeoutMs,omitempty"`
	OutputBytesCap    int64              `json:"outputBytesCap,omitempty"`
}

// CommandExecReply answers command/exec.
type CommandExecReply struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}
