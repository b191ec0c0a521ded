package supervisor

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// Room texts: plain, short, no JSON, no stack. What happened, what was done,
// and a partial reply below when there is one. The person reading is in a chat
// room and may not know that this service exists.

// failure is what a text may mention besides its reason.
type failure struct {
	why     reason.Reason
	detail  string        // one line, already safe to show; may be ""
	after   time.Duration // for timeouts: how long the turn was given
	until   time.Time     // for limits: when to try again; zero = unknown
	partial string        // what was written before the end
	ran     bool          // something may have been done already
}

func (f failure) text() string {
	var b strings.Builder
	b.WriteString(f.sentence())
	if f.ran {
		b.WriteString(" Parts of it may have been done already.")
	}
	if p := strings.TrimSpace(f.partial); p != "" {
		b.WriteString("\n\nUp to then it had written:\n\n")
		b.WriteString(p)
	}
	return b.String()
}

func (f failure) sentence() string {
	switch f.why {
	case reason.TurnTimeout:
		return fmt.Sprintf("This took longer than the %s allowed, so it was stopped.", plainDuration(f.after))
	case reason.Cancelled:
		return "This was cancelled before it was finished."
	case reason.ChildDied:
		return "Codex stopped unexpectedly while working on this, more than once, so it was given up. Asking again in other words may help."
	case reason.CutTwice:
		return "Codex was cut off twice while working on this, so it was given up."
	case reason.MayHaveRun:
		return "Codex was restarted while working on this and its conversation cannot be read, so it is not known how far it came. Please check before asking again."
	case reason.TurnInterrupted:
		return "Codex reports that this was interrupted."
	case reason.ReplyTooLarge:
		return "Codex answered, but the answer was too large to be read. Please ask for a shorter one."
	case reason.PromptTooLong:
		return "This message is too long for Codex (its limit is 1,048,576 characters). Please send less, or send it as a file."
	case reason.EmptyReply:
		return "[no reply] Codex finished without writing an answer, twice."
	case reason.UsageLimit:
		if f.until.IsZero() {
			return "The usage limit of the Codex account is reached. Please ask again later."
		}
		return fmt.Sprintf("The usage limit of the Codex account is reached. It resets at %s; please ask again after that.", plainTime(f.until))
	case reason.LoginMissing:
		return "Codex is not logged in on this machine, so nothing can be answered. Whoever runs it has to log in (codex login)."
	case reason.ConfigBroken:
		return "The Codex configuration on this machine cannot be loaded, so nothing can be answered. Whoever runs it has to mend it."
	case reason.ContextWindow:
		return "This conversation, or this message, is too long for the model."
	case reason.ModelError:
		return "The model could not answer" + f.because() + ". Please try again later."
	case reason.CodexError:
		return "Codex refused to start on this" + f.because() + "."
	case reason.ThreadMissing:
		return "The conversation that this room is bound to does not exist any more, so nothing was done. Whoever runs this has to bind another one."
	case reason.ThreadLocked:
		return "Another program has this room's conversation open, so nothing was done. Please try again when it has been closed."
	case reason.PolicyUnverified:
		return "Codex did not confirm the limits that apply to this message, so it was not run."
	case reason.GuestsUnconfined, reason.GuestsAsRoot:
		return "Messages from guests cannot be answered safely on this machine at the moment, so this was not run."
	case reason.TierDisabled:
		return "Messages like this one are not answered here."
	case reason.AttachmentRefused:
		return "An attachment could not be taken" + f.because() + ", so this was not run."
	case reason.FileUnreadable:
		return "This message could not be read, so it was not run."
	case reason.FileTooLarge:
		return "This message is too large, so it was not run."
	case reason.FileNotUTF8:
		return "This message is not valid text (UTF-8), so it was not run."
	case reason.NoTask:
		return "This message has no \"task:\" line, so there was nothing to run."
	case reason.EmptyTask:
		return "This message was empty when it arrived, so there was nothing to do."
	case reason.IDMismatch:
		return "This message arrived under a name that is not its own, so it was not run."
	case reason.EnvelopeInvalid:
		return "The signature of this message does not match its text, so it was not run."
	case reason.EnvelopeRequired:
		return "This message is not signed, and only signed messages are run here."
	default:
		return fmt.Sprintf("This could not be answered (%s).", f.why)
	}
}

func (f failure) because() string {
	d := strings.TrimRight(oneLine(f.detail, 200), ".")
	if d == "" {
		return ""
	}
	return " (" + d + ")"
}

// noticed puts a notice, such as that the conversation started afresh, above a reply.
func noticed(notice, text string) string {
	if notice == "" {
		return text
	}
	return "(" + notice + ")\n\n" + text
}

const (
	noticeAfresh  = "The earlier conversation of this room could not be found, so this answer starts afresh."
	noticeTooLong = "The earlier conversation of this room had become too long, so this answer starts afresh."
)

// escapes are the colours that programs write to their stderr.
var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// oneLine makes any text fit on one line of at most limit runes.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(escapes.ReplaceAllString(s, "")), " ")
	r := []rune(s)
	if len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// plainDuration writes a duration as people say it: "10 minutes", "1 hour 30 minutes".
func plainDuration(d time.Duration) string {
	if d < time.Second {
		return d.String()
	}
	d = d.Round(time.Second)
	units := []struct {
		size time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	var parts []string
	for _, u := range units {
		if n := d / u.size; n > 0 && len(parts) < 2 {
			d -= n * u.size
			name := u.name
			if n != 1 {
				name += "s"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, " ")
}

// plainTime names a moment with its zone, since a room may span several.
func plainTime(t time.Time) string { return t.Format("15:04 MST on 2 January") }
