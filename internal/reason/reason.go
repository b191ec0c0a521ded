// Package reason is the closed list of words that say why something ended
// the way it did. The ledger, the log, the metric label `reason`, the result
// text and the command line all use these words and no others.
//
// It owns the words and their one-line explanations for operators. It never
// decides which one applies: that is done where the thing ends.
package reason

// Reason is one word of the closed list.
type Reason string

// How tasks end.
const (
	// Answered: Codex gave a final text and it was published.
	Answered Reason = "answered"
	// AlreadyAnswered: a result for this id existed when we came to publish.
	AlreadyAnswered Reason = "already_answered"
	// EmptyReply: Codex completed the turn twice without a final text.
	EmptyReply Reason = "empty_reply"
	// TurnTimeout: the turn ran past turn_timeout and was interrupted.
	TurnTimeout Reason = "turn_timeout"
	// Cancelled: an operator or a cancel task stopped it.
	Cancelled Reason = "cancelled"
	// ChildDied: the app-server died under the turn, too often to try again.
	ChildDied Reason = "child_died"
	// CutTwice: the turn and its one continuation were both cut off.
	CutTwice Reason = "cut_twice"
	// MayHaveRun: the thread is missing or locked and the turn may have run.
	MayHaveRun Reason = "may_have_run"
	// TurnInterrupted: Codex reports the turn interrupted and nobody here asked for it.
	TurnInterrupted Reason = "turn_interrupted"
	// ReplyTooLarge: the app-server sent a reply line over the read limit.
	ReplyTooLarge Reason = "reply_too_large"
	// PromptTooLong: the prompt is over Codex's 1,048,576 characters.
	PromptTooLong Reason = "prompt_too_long"
	// UsageLimit: the account's usage limit is reached.
	UsageLimit Reason = "usage_limit"
	// LoginMissing: Codex has no valid login.
	LoginMissing Reason = "login_missing"
	// ContextWindow: the conversation no longer fits the model.
	ContextWindow Reason = "context_window"
	// ModelError: the turn failed with any other error of the model or its provider.
	ModelError Reason = "model_error"
	// ThreadMissing: the thread bound to this channel does not exist.
	ThreadMissing Reason = "thread_missing"
	// ThreadLocked: another process holds the channel's thread.
	ThreadLocked Reason = "thread_locked"
	// PolicyUnverified: the app-server's effective policy is not the one asked for.
	PolicyUnverified Reason = "policy_unverified"
	// GuestsUnconfined: confinement was not proven on this child, so no non-owner work runs.
	GuestsUnconfined Reason = "guests_unconfined"
	// GuestsAsRoot: the service runs as uid 0, where a sandbox is no boundary.
	GuestsAsRoot Reason = "guests_as_root"
	// TierDisabled: this tier is switched off in the configuration.
	TierDisabled Reason = "tier_disabled"
	// CodexError: the app-server refused a request for a reason not listed here.
	CodexError Reason = "codex_error"
	// AttachmentRefused: an attachment could not be taken into the room.
	AttachmentRefused Reason = "attachment_refused"
	// BacklogSkipped: the file was older than max_backlog_age at the first start.
	BacklogSkipped Reason = "backlog_skipped"
)

// How files are refused before anything runs.
const (
	// FileNameBad: the file's name is no task id.
	FileNameBad Reason = "file_name_bad"
	// FileUnreadable: the task file could not be read.
	FileUnreadable Reason = "file_unreadable"
	// FileTooLarge: the task file is over the read limit.
	FileTooLarge Reason = "file_too_large"
	// FileNotUTF8: the task file is not valid UTF-8.
	FileNotUTF8 Reason = "file_not_utf8"
	// NoTask: the file has no `task:` line.
	NoTask Reason = "no_task"
	// EmptyTask: the file's ask is empty.
	EmptyTask Reason = "empty_task"
	// IDMismatch: the `id:` header is not the file's name.
	IDMismatch Reason = "id_mismatch"
	// EnvelopeInvalid: the HMAC stamp does not match the bytes.
	EnvelopeInvalid Reason = "envelope_invalid"
	// EnvelopeRequired: policy strict, and the file is not verified.
	EnvelopeRequired Reason = "envelope_required"
)

// Why a generation of the child ended or is not running.
const (
	// ChildStopped: the service is stopping.
	ChildStopped Reason = "stopped"
	// ChildExited: the app-server ended by itself.
	ChildExited Reason = "exited"
	// ChildKilled: the app-server was ended by a signal from elsewhere.
	ChildKilled Reason = "killed"
	// ChildUnresponsive: it ignored an interrupt past the grace.
	ChildUnresponsive Reason = "unresponsive"
	// ChildStartTimeout: no handshake within start_timeout.
	ChildStartTimeout Reason = "start_timeout"
	// ChildProtocol: the pipe broke or carried no usable protocol.
	ChildProtocol Reason = "protocol"
	// ChildRecycled: replaced at an idle moment (reload, login, memory).
	ChildRecycled Reason = "recycled"
	// ChildRestarted: replaced because an operator asked.
	ChildRestarted Reason = "restarted"
	// BinaryMissing: the codex program cannot be started.
	BinaryMissing Reason = "binary_missing"
	// VersionTooOld: codex is older than the oldest version that works.
	VersionTooOld Reason = "version_too_old"
	// ConfigBroken: Codex cannot load its configuration.
	ConfigBroken Reason = "config_broken"
	// DiskFull: the state or result dir cannot be written.
	DiskFull Reason = "disk_full"
)

// String is the word itself.
func (r Reason) String() string { return string(r) }

// Tasks lists every reason that can end a task.
func Tasks() []Reason {
	return []Reason{
		Answered, AlreadyAnswered, EmptyReply, TurnTimeout, Cancelled, ChildDied, CutTwice, MayHaveRun,
		TurnInterrupted, ReplyTooLarge, PromptTooLong, UsageLimit, LoginMissing, ConfigBroken, ContextWindow,
		ModelError, ThreadMissing, ThreadLocked, PolicyUnverified, GuestsUnconfined, GuestsAsRoot, TierDisabled,
		CodexError, AttachmentRefused, BacklogSkipped, FileUnreadable, FileTooLarge, FileNotUTF8, NoTask,
		EmptyTask, IDMismatch, EnvelopeInvalid, EnvelopeRequired,
	}
}
