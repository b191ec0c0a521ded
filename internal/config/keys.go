package config

// WorkDirKeys are the keys of [defaults] and [[workdir]] as they are written,
// nil where nothing was said. Flags use the same type.
type WorkDirKeys struct {
	Name             *string   `toml:"name"`
	Path             *string   `toml:"path"`
	Tasks            *string   `toml:"tasks"`
	Results          *string   `toml:"results"`
	State            *string   `toml:"state"`
	HMACKey          *string   `toml:"hmac_key"`
	Codex            any       `toml:"codex"` // a string, or a list: program and arguments
	Server           *string   `toml:"server"`
	CodexHome        *string   `toml:"codex_home"`
	CodexHomeFrom    *string   `toml:"codex_home_from"`
	EnvPass          *[]string `toml:"env_pass"`
	ShellEnv         *string   `toml:"shell_env"`
	Model            *string   `toml:"model"`
	Sandbox          *string   `toml:"sandbox"`
	Cwd              *string   `toml:"cwd"`
	TurnTimeout      *Duration `toml:"turn_timeout"`
	InterruptGrace   *Duration `toml:"interrupt_grace"`
	QuietAfter       *Duration `toml:"quiet_after"`
	ReplaceDrain     *Duration `toml:"replace_drain"`
	StartTimeout     *Duration `toml:"start_timeout"`
	MaxTurns         *int      `toml:"max_turns"`
	Ageing           *Duration `toml:"ageing"`
	Envelope         *string   `toml:"envelope"`
	AttachmentRoots  *[]string `toml:"attachment_roots"`
	MaxResultBytes   *ByteSize `toml:"max_result_bytes"`
	MaxThreadBytes   *ByteSize `toml:"max_thread_bytes"`
	MaxChildRSS      *ByteSize `toml:"max_child_rss"`
	DoneRetention    *Duration `toml:"done_retention"`
	MaxBacklogAge    *Duration `toml:"max_backlog_age"`
	IdleExit         *Duration `toml:"idle_exit"`
	WarmSpare        *bool     `toml:"warm_spare"`
	ThreadID         any       `toml:"thread_id"` // a table, or a list of CHANNEL=THREAD
	UnsafeRootGuests *bool     `toml:"unsafe_root_guests"`
}

// Overlay is what flags say. Codex in its WorkDirKeys is a string or []string,
// ThreadID a []string.
type Overlay struct {
	Listen, Socket      *string
	LogLevel, LogFormat *string
	ShowText            *bool
	DrainTimeout        *Duration
	// WorkDirKeys apply to a single work dir: the one whose path they name,
	// or the only one of the file. With a path of their own, only that work dir
	// is run.
	WorkDirKeys
}

// tierKeys are the keys of [tiers.NAME].
type tierKeys struct {
	Enabled     *bool     `toml:"enabled"`
	Read        *[]string `toml:"read"`
	Model       *string   `toml:"model"`
	TurnTimeout *Duration `toml:"turn_timeout"`
	MaxTurns    *int      `toml:"max_turns"`
	Rate        *Rate     `toml:"rate"`
}

// fileKeys are the keys of the file.
type fileKeys struct {
	Listen *string `toml:"listen"`
	Socket *string `toml:"socket"`
	Log    struct {
		Level  *string `toml:"level"`
		Format *string `toml:"format"`
	} `toml:"log"`
	Web struct {
		ShowText *bool `toml:"show_text"`
	} `toml:"web"`
	DrainTimeout *Duration     `toml:"drain_timeout"`
	Defaults     WorkDirKeys   `toml:"defaults"`
	WorkDirs     []WorkDirKeys `toml:"workdir"`
	Tiers        struct {
		Team    tierKeys `toml:"team"`
		Guest   tierKeys `toml:"guest"`
		Ambient tierKeys `toml:"ambient"`
	} `toml:"tiers"`
}
