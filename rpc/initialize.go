package rpc

import "strings"

// InitializeParams are the parameters of initialize.
type InitializeParams struct {
	ClientInfo   ClientInfo    `json:"clientInfo"`
	Capabilities *Capabilities `json:"capabilities,omitempty"`
}

// ClientInfo names this client to the server.
type ClientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// Capabilities are fixed for the life of the connection.
type Capabilities struct {
	// ExperimentalAPI opens gated methods and fields.
	ExperimentalAPI bool `json:"experimentalApi"`
	// OptOutNotificationMethods are not sent to us. Deltas are the best sign of
	// life, so a supervisor wants them.
	OptOutNotificationMethods []string `json:"optOutNotificationMethods,omitempty"`
}

// InitializeReply answers initialize.
type InitializeReply struct {
	UserAgent      string `json:"userAgent"`
	CodexHome      string `json:"codexHome"`
	PlatformFamily string `json:"platformFamily"`
	PlatformOS     string `json:"platformOs"`
}

// Version is the app-server's version, taken from the user agent, which reads
// "<our name>/<codex version> (<os>...)" (codex app-server 0.171.0, measured).
// It is "" when there is none.
func (r InitializeReply) Version() string {
	head, _, _ := strings.Cut(r.UserAgent, " (")
	slash := strings.LastIndexByte(head, '/')
	if slash < 0 {
		return ""
	}
	version, _, _ := strings.Cut(head[slash+1:], " ")
	if version == "" || version[0] < '0' || version[0] > '9' {
		return ""
	}
	return version
}
