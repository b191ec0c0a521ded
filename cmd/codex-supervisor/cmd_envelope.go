package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// The exit codes of envelope verify: its verdicts.
const (
	exitUnsigned     = 3
	exitInvalid      = 4
	exitUnverifiable = 5
)

// envelopeOptions are the flags of envelope stamp and verify.
type envelopeOptions struct {
	key   string
	write bool
	json  bool
}

func newEnvelopeCommand(env *environment) *cobra.Command {
	return group("envelope", "Stamp or verify a task file", `A gateway that shares a key with this machine stamps its task files (HMAC), and
the service can tell them from others. These commands do the same by hand.

The key is --key FILE, else state/auth/task-hmac.key of the work dir whose
tasks/ the file lies in. Without --key, nothing outside that work dir is read.`,
		newEnvelopeStampCommand(env), newEnvelopeVerifyCommand(env))
}

func newEnvelopeStampCommand(env *environment) *cobra.Command {
	o := &envelopeOptions{}
	c := &cobra.Command{
		Use:     "stamp FILE",
		Short:   "Print a task file with a fresh stamp",
		Long:    "Print a task file with a stamp over its bytes, in place of one that it has.\nWith --write the file itself is replaced, at once and whole.\n" + exitHelp,
		Example: "  codex-supervisor envelope stamp --write ~/agent/tasks/hello.txt",
		Args:    exactly("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return runEnvelopeStamp(args[0], o, env) },
	}
	c.Flags().StringVar(&o.key, "key", "", "the key `file`: 64 hex digits")
	c.Flags().BoolVar(&o.write, "write", false, "replace the file")
	return c
}

func runEnvelopeStamp(file string, o *envelopeOptions, env *environment) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	path := keyPath(file, o.key)
	key, err := control.ReadKey(path)
	if err != nil {
		return err
	}
	if key == nil {
		return &exitError{code: exitFailure, message: fmt.Sprintf("there is no key at %q", path), try: "name the gateway's key file by --key"}
	}
	stamped := task.Stamp(raw, key)
	if !o.write {
		_, err := env.stdout.Write(stamped)
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look at task: %w", err)
	}
	if err := renameio.WriteFile(file, stamped, info.Mode().Perm()); err != nil {
		return fmt.Errorf("replace task: %w", err)
	}
	return nil
}

func newEnvelopeVerifyCommand(env *environment) *cobra.Command {
	o := &envelopeOptions{}
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Judge the stamp of a task file",
		Long: `Judge the stamp of a task file and print the verdict. "unsigned" does not mean
harmless: whoever moves a stamp out of its place makes a file unsigned.

Exit status:
  0  verified: the stamp is right for these bytes
  1  the file or the key cannot be read
  2  the command line is wrong
  3  unsigned: no stamp in its place
  4  invalid: the stamp is wrong for these bytes; such a file never runs
  5  unverifiable: there is a stamp and no key to check it with
`,
		Example: "  codex-supervisor envelope verify ~/agent/tasks/hello.txt",
		Args:    exactly("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return runEnvelopeVerify(args[0], o, env) },
	}
	c.Flags().StringVar(&o.key, "key", "", "the key `file`: 64 hex digits")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runEnvelopeVerify(file string, o *envelopeOptions, env *environment) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	path := keyPath(file, o.key)
	if o.key != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read key: %w", err) // one that was named should be there
		}
	}
	key, err := control.ReadKey(path)
	if err != nil {
		// A key that is none is as good as no key: the verdict says so.
		fmt.Fprintf(env.stderr, "codex-supervisor: %v\n", err)
		key = nil
	}
	verdict := task.Verify(raw, key)
	if o.json {
		err = printJSON(env.stdout, map[string]any{"file": file, "verdict": verdict, "key": path, "key_found": key != nil})
	} else {
		_, err = fmt.Fprintln(env.stdout, verdict)
	}
	if err != nil {
		return err
	}
	code := exitOK
	switch verdict {
	case task.Verified:
		return nil
	case task.Unsigned:
		code = exitUnsigned
	case task.Invalid:
		code = exitInvalid
	case task.Unverifiable:
		code = exitUnverifiable
		env.say("no key at %q; name one by --key", path)
	}
	return &exitError{code: code}
}

// keyPath is where the gateways keep the key of the work dir that a file in its
// tasks/ belongs to.
func keyPath(file, key string) string {
	if key != "" {
		return key
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		abs = file
	}
	return filepath.Join(filepath.Dir(filepath.Dir(abs)), "state", "auth", "task-hmac.key")
}
